-- highest rate over the cost of the cluster, by design, from studies of throughput
-- Mean and range of the rate are over the seeds. Designs without an answer or a known cost are left
-- out, as are studies of another outcome epoch than that of the newest study.
SELECT answer.design AS series,
  max(answer.cost_per_hour) AS cost_per_hour,
  avg(answer.rate_rps) AS rate,
  min(answer.rate_rps) AS low,
  max(answer.rate_rps) AS high
FROM answer
  JOIN study ON study.id = answer.study_id
WHERE study.objective = 'throughput' AND answer.cost_per_hour > 0
  AND epochs_agree(study.epoch, (SELECT epoch FROM study ORDER BY id DESC LIMIT 1))
GROUP BY answer.study_id, answer.design
ORDER BY series, cost_per_hour;
