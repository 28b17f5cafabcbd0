package sglang

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/headrace/headrace/producers"
)

// refusal turns an answer that is no success into an error.
func (c *Client) refusal(response *http.Response, body string) error {
	text := strings.Join(strings.Fields(body), " ")
	if len(text) > maxErrorText {
		text = strings.ToValidUTF8(text[:maxErrorText], "") + " ..."
	}
	detail := fmt.Sprintf("%s: %d %s", c.opts.Name, response.StatusCode, text)
	switch code := response.StatusCode; {
	case code == http.StatusServiceUnavailable && withoutWeights(text):
		return fmt.Errorf("%w: %s", producers.ErrUnavailable, detail)
	case code == http.StatusServiceUnavailable || code == http.StatusTooManyRequests:
		return &producers.OverloadedError{RetryAfter: retryAfter(response.Header.Get("Retry-After")), Detail: detail}
	case code >= 500:
		return fmt.Errorf("%w: %s", producers.ErrUnavailable, detail)
	case tooLong(text):
		return fmt.Errorf("%w: %s", producers.ErrTooLong, detail)
	default:
		return fmt.Errorf("%w: %s", producers.ErrBadRequest, detail)
	}
}

func withoutWeights(text string) bool {
	return strings.Contains(text, "no weights") || strings.Contains(text, "unready")
}

// tooLong recognises the several wordings of a prompt that does not fit.
func tooLong(text string) bool {
	lower := strings.ToLower(text)
	return strings.Contains(lower, "context") || strings.Contains(lower, "too long") || strings.Contains(lower, "longer than")
}

// retryAfter reads seconds or a date; 0 when there is neither.
func retryAfter(header string) time.Duration {
	if seconds, err := strconv.Atoi(header); err == nil && seconds > 0 {
		return time.Duration(seconds) * time.Second
	}
	if at, err := http.ParseTime(header); err == nil {
		return max(0, time.Until(at))
	}
	return 0
}
