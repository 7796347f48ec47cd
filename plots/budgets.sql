-- The largest rate that a budget buys, by design, from provisioning studies for throughput: cost
-- per hour of the cluster, mean and range of the rate over the seeds. Designs without an answer, or
-- with a cost that is not known, are left out, and so are all of another outcome epoch than the
-- newest study's.
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
