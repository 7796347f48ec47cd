-- objective of each design of the newest study with its range over seeds, and the margin it leaves
-- The columns are the mean over the seeds, the lowest, the highest, half of the mean's 95%
-- interval, the margin of the tightest limit in percent, and what that limits: 1 TTFT, 2 TPOT, 3
-- E2E, 4 gaps between tokens, 0 anything else. Designs without an answer are left out. A row
-- without series is the objective: 1 cost, 2 power, 3 machines, 4 rate, 5 instances, 6 GPUs.
WITH newest AS (
  SELECT id, objective FROM study ORDER BY id DESC LIMIT 1
), first AS (
  SELECT design, max(gpus) AS gpus, max(margin) AS margin, max(binds) AS binds
  FROM answer JOIN newest ON newest.id = study_id
  WHERE seed = (SELECT min(seed) FROM answer AS any WHERE any.study_id = newest.id) GROUP BY design
)
SELECT series, mean, low, high, half_width, margin, limits
FROM (SELECT design.name || iif(first.gpus > 0, printf(', %d GPU%s', first.gpus,
    iif(first.gpus = 1, '', 's')), '') AS series, mean, low, high, half_width,
  100 * first.margin AS margin, CASE WHEN binds LIKE '%ttft%' THEN 1 WHEN binds LIKE '%tpot%' THEN 2
    WHEN binds LIKE '%e2e%' THEN 3 WHEN binds LIKE '%tbt%' THEN 4 ELSE 0 END AS limits,
  first.gpus AS gpus
FROM design JOIN newest ON newest.id = study_id LEFT JOIN first ON first.design = design.name
WHERE mean IS NOT NULL
UNION ALL
SELECT NULL, CASE objective WHEN 'cost' THEN 1 WHEN 'power' THEN 2 WHEN 'carbon' THEN 2
    WHEN 'machines' THEN 3 WHEN 'instances' THEN 5 WHEN 'gpus' THEN 6 ELSE 4 END,
  NULL, NULL, NULL, NULL, NULL, NULL
FROM newest WHERE EXISTS (SELECT * FROM design WHERE study_id = newest.id AND mean IS NOT NULL))
ORDER BY series IS NOT NULL, mean, gpus, margin DESC;
