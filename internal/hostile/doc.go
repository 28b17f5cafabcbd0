// Package hostile holds the tests of a producer that means harm: it holds a
// producer's credential, so it may publish under its own name, lease tasks and
// acknowledge leases, and does so in every wrong way we know. Each attack runs
// against the real grouper, bridge and inspector on a real server, beside honest
// producers and a trainer.
//
// The one idea: the same seeded run is played without the attacker first. With
// it, the run must end as well, and what it trained must be the same, where the
// attacker holds no lease; where it does, nothing but what those leases are for
// may differ.
package hostile
