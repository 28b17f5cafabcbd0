package main

import (
	"math"
	"time"
)

// splitmix64 is the generator of Steele, Lea and Flood (2014), one output.
func splitmix64(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// latency is the time that an environment takes for a step: log-normal with
// median 20 ms and 99th percentile 2 s, cut at 10 s, decided by seed, episode
// and step alone, so that other orchestrators can be given the same work.
func latency(seed, episode, step uint64) time.Duration {
	u := float64(splitmix64(seed<<48^episode<<16^step)>>11)/(1<<53) + 1.0/(1<<54)
	seconds := math.Min(10, 0.020*math.Exp(1.98*normalQuantile(u)))
	return time.Duration(seconds * float64(time.Second))
}

// normalQuantile is the inverse of the standard normal distribution function.
func normalQuantile(u float64) float64 { return math.Sqrt2 * math.Erfinv(2*u-1) }
