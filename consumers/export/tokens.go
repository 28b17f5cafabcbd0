package export

// perToken spreads what is said of a segment's sampled tokens over all of them:
// logprob 0, version -1 and mask 0 stand for those that nobody sampled or that
// are not trained on. All have the length of Tokens.
func (s *Segment) perToken() (logprobs []float32, versions, mask []int32) {
	n := len(s.Tokens)
	logprobs, versions, mask = make([]float32, n), make([]int32, n), make([]int32, n)
	for i := range versions {
		versions[i] = -1
	}
	k := 0
	for _, v := range s.Versions {
		for i := v[0]; i < v[1]; i++ {
			logprobs[i], versions[i] = s.Logprobs[k], int32(v[2]) //nolint:gosec // checked on the way in
			k++
		}
	}
	for _, m := range s.LossMask {
		for i := m[0]; i < m[1]; i++ {
			mask[i] = 1
		}
	}
	return logprobs, versions, mask
}
