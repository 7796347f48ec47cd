-- best answer of each design on each seed, from stored studies
SELECT study.id AS study, objective, design, seed, prefill_instances AS prefill,
  decode_instances AS decode, mixed_instances AS mixed, instances, gpus, machines,
  round(cost_per_hour, 2) AS "$/h", round(cost_per_million_output_tokens, 3) AS "$/M",
  round(power_kw, 2) AS kW, rate_rps, binds, round(margin, 3) AS margin,
  choice, round(output_tokens_per_s, 1) AS "tokens/s",
  is_stale(study.epoch) AS stale
FROM study JOIN answer ON answer.study_id = study.id
ORDER BY study.id, design, seed;
