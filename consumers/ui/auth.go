package ui

import (
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

const policy = "default-src 'self'; connect-src 'self'; img-src 'self' data:; style-src 'self' 'unsafe-inline'; frame-ancestors 'none'; base-uri 'self'; form-action 'self'"

// guard sets what every answer says to the browser.
func guard(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
}

func hostOf(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	return strings.ToLower(strings.Trim(host, "[]"))
}

// hosted reports whether the browser means this server. A page of an attacker may
// give its own name our address; the name is then still its own.
func (s *Server) hosted(r *http.Request) bool {
	return len(s.o.Hosts) == 0 || slices.Contains(s.o.Hosts, hostOf(r))
}

// admit lets in who has the token: in a cookie, in a header, or in the address,
// which is then changed for a cookie. Others are refused.
func (s *Server) admit(w http.ResponseWriter, r *http.Request) bool {
	if s.o.Token == "" {
		return true
	}
	if token := r.URL.Query().Get("token"); token != "" && s.known(token) {
		s.welcome(w, r)
		return false
	}
	if token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && s.known(token) {
		return true
	}
	for _, c := range r.CookiesNamed(s.cookie()) {
		if s.known(c.Value) {
			return true
		}
	}
	refuse(w, r, http.StatusUnauthorized, "no token came with this request: open the address that `headrace ui` printed when it started, or send it as `Authorization: Bearer`")
	return false
}

func (s *Server) known(token string) bool {
	return subtle.ConstantTimeCompare([]byte(token), []byte(s.o.Token)) == 1
}

// cookie is the cookie's name: a browser sends those of one host to all of its
// ports, where other servers with other tokens may be.
func (s *Server) cookie() string {
	sum := sha256.Sum256([]byte("cookie " + s.o.Token))
	return "headrace_" + hex.EncodeToString(sum[:6])
}

// welcome changes the token in the address for a cookie.
func (s *Server) welcome(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	q.Del("token")
	to := url.URL{Path: r.URL.Path, RawQuery: q.Encode()}
	if !strings.HasPrefix(to.Path, s.o.Base) || strings.HasPrefix(to.Path, "//") {
		to.Path = s.o.Base
	}
	http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: s.o.Token, Path: s.o.Base, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil || r.Header.Get("X-Forwarded-Proto") == "https"})
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to.String(), http.StatusSeeOther)
}

// refuse answers who is not let in: a script in JSON, a person in a sentence.
func refuse(w http.ResponseWriter, r *http.Request, status int, text string) {
	w.Header().Set("Cache-Control", "no-store")
	if strings.Contains(r.URL.Path, "/api/") || !strings.Contains(r.Header.Get("Accept"), "text/html") {
		complain(w, status, text)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.WriteHeader(status)
	fmt.Fprintln(w, "headrace: "+text)
}
