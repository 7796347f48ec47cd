-- One row per run.
SELECT * FROM summary ORDER BY run;
