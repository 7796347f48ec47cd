-- choices of offline studies, best first, and last those without an answer
SELECT study_id AS study, design, seed, label AS choice, round(throughput_rps, 4) AS "requests/s",
  round(output_tokens_per_s, 1) AS "tokens/s", why_not,
  is_stale(epoch) AS stale
FROM choice JOIN study ON study.id = study_id
ORDER BY study_id, design, seed, why_not IS NOT NULL, throughput_rps DESC, choice.choice;
