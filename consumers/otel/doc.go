// Package otel tells trajectories to whatever understands OpenTelemetry: an
// episode is an agent's invocation, a turn a model's call and the environment's
// answer, a reward the result of an evaluation, by the names of OpenTelemetry's
// conventions for generative AI.
//
// One idea explains its shape: the log has the times, so spans are written after
// the fact, by a tap. Their ids follow from the trajectory's, so what is told twice
// is the same spans again, and a tap that is held back by a slow collector holds up
// itself alone.
package otel
