-- What provisioning studies have answered: the best of each design on each seed.
SELECT study.id AS study, objective, design, seed, prefill_machines AS prefill,
  decode_machines AS decode, mixed_machines AS mixed, machines, round(cost_per_hour, 2) AS "$/h",
  round(power_kw, 2) AS kW, rate_rps, binds, round(margin, 3) AS margin,
  choice, round(output_tokens_per_s, 1) AS "tokens/s",
  is_stale(study.epoch) AS stale
FROM study JOIN answer ON answer.study_id = study.id
ORDER BY study.id, design, seed;
