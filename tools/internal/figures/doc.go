// Package figures is the JSON of a store's figures, the same wherever they are
// shown: at /status, in the answer of KV.STATS and in sealstone_stats of the C
// library. Bytes and times carry their unit in the name, statuses their names;
// totals begin when the process did.
package figures
