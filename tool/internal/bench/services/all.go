// Package services holds the scenarios of the workbench, a file each.
package services

import "granary/tool/internal/bench/scenario"

// All are the scenarios, in the order in which help lists them.
var All = []scenario.Scenario{
	redisScenario, kv, mariadb, nginx, memcached, postgres, rocksdb, python, node, rax,
}
