-- objective of each design of the newest study, with its range over seeds
-- The columns are the mean over the seeds, the lowest, the highest, and half of the mean's 95%
-- interval. Designs without an answer are left out. A row without series is the objective: 1 cost,
-- 2 power, 3 machines, 4 rate.
WITH newest AS (
  SELECT id, objective FROM study ORDER BY id DESC LIMIT 1
)
SELECT * FROM (SELECT design.name AS series, mean, low, high, half_width
FROM design JOIN newest ON newest.id = study_id WHERE mean IS NOT NULL
UNION ALL
SELECT NULL,
  CASE objective WHEN 'cost' THEN 1 WHEN 'power' THEN 2 WHEN 'machines' THEN 3 ELSE 4 END,
  NULL, NULL, NULL
FROM newest WHERE EXISTS (SELECT * FROM design WHERE study_id = newest.id AND mean IS NOT NULL))
ORDER BY series IS NOT NULL, mean;
