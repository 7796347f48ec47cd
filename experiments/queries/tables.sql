-- tables and columns of the database
SELECT sqlite_master.name AS "table", group_concat(info.name, ' ') AS columns
FROM sqlite_master JOIN pragma_table_info(sqlite_master.name) AS info
WHERE sqlite_master.type IN ('table', 'view') AND sqlite_master.name NOT LIKE 'sqlite%'
GROUP BY sqlite_master.name ORDER BY sqlite_master.rowid;
