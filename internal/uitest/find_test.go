//go:build browser

package uitest

import "fmt"

// finder looks through the run for a trajectory of a kind, as a script would, and
// gives the address of its page. Groups are asked for by a query; a trajectory is
// taken when the JavaScript predicate of m (of the group) and t() (its own answer)
// is true.
const finder = `(async (run, query, fits) => {
	const get = async (path) => (await fetch(new URL("api/runs/" + run + path, document.baseURI))).json();
	for (let cursor = "", pages = 0; pages < 5; pages++) {
		const list = await get("/groups?limit=100&" + query + "&cursor=" + cursor);
		for (const g of list.groups) {
			const {members, unused} = await get("/groups/" + g.group);
			for (const m of [...members, ...unused]) {
				const t = () => get("/trajectories/" + m.id);
				if (await fits(m, t)) return "/r/" + run + "/t/" + m.id;
			}
		}
		if (!(cursor = list.next)) break;
	}
	return "";
})`

// odd are trajectories that a page must show as well as any other: what is found
// by a query and a predicate, and what is to be seen then.
var odd = []struct{ name, query, fits, see string }{
	{"failed", "status=failed", `(m) => m.status === "failed"`, `document.querySelector(".badge.bad")`},
	{"aborted", "status=aborted", `(m) => m.status === "aborted"`, `document.querySelector(".badge.bad")`},
	{"overlong", "status=overlong", `(m) => m.status === "overlong"`, `document.querySelector(".badge.warn")`},
	{"evaluation", "kind=eval", `(m) => true`, `document.querySelector(".verdict")?.textContent.startsWith("Played to measure")`},
	{"forked", "env=calculator", `async (m, t) => m.turns > 1 && (await t()).segments.length > 1`,
		`document.querySelectorAll(".token-text").length > 1 && document.querySelector(".forks .fork")`},
	{"reasoning and tools", "env=calculator", `(m) => m.messages?.some((s) => s.content.includes("<think>")) && m.messages.some((s) => s.role === "tool")`,
		`document.querySelector("details.fold-reasoning:not([open])") && document.querySelector("details.fold-call")`},
	{"dropped for equal rewards", "outcome=zero_variance", `(m) => !m.used`, `document.querySelector(".verdict")`},
}

// oddities are the stops at them.
func oddities(run string) []stop {
	stops := []stop{{name: "runs", reach: func(t *Tab) error { return t.Open("/") }, see: see("Runs")}}
	for _, o := range odd {
		stops = append(stops, stop{name: o.name, see: see("Trajectory ") + " && " + o.see, reach: func(t *Tab) error {
			path, err := Ask[string](t, fmt.Sprintf("%s(%q, %q, %s)", finder, run, o.query, o.fits))
			if err == nil && path == "" {
				err = fmt.Errorf("the made-up run has no trajectory that is %s", o.name)
			}
			if err != nil {
				return err
			}
			return t.Open(path)
		}})
	}
	return stops
}
