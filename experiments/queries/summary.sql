-- One row per run.
SELECT *, epoch <> outcome_epoch() AS stale FROM summary ORDER BY run;
