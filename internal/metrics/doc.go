// Package metrics serves a run's numbers to Prometheus.
//
// One idea explains its shape: nothing is counted here. A role already reports
// its gauges about once a second, and the log already says what was decided; one
// table ([Families]) gives each number its name in Prometheus, and two folds read
// what goes by anyway: [Reports] what roles say of themselves, [Log] the ledger,
// the trainer's events and the headers of the rollouts. So no stage knows that
// Prometheus exists, and a label is never anything that a producer may choose:
// what is not in the table or in the recipe is "other" or left out.
package metrics
