//go:build browser

package uitest

import "testing"

// parts are claims about the pages' pure modules, each a JavaScript expression
// that is the list of what contradicts it.
var parts = []struct{ claim, check string }{
	{"what is gone and what is the same make the first text, what is new and the same the second", `(async () => {
		const {wordDiff} = await use("words");
		let seed = 1;
		const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
		const text = () => Array.from({length: random(14)}, () => ["a ", "b ", "c", "größe ", "🙂", "שלום ", "\n"][random(7)]).join("");
		const bad = [];
		for (let i = 0; i < 3000; i++) {
			const a = text(), b = text(), runs = wordDiff(a, b);
			const side = (kind) => runs.filter((r) => r.kind === "same" || r.kind === kind).map((r) => r.text).join("");
			if (side("gone") !== a || side("new") !== b) bad.push(JSON.stringify([a, b, runs]));
		}
		return bad;
	})()`},
	{"equal words stay where one changed", `(async () => {
		const {wordDiff} = await use("words");
		return same(wordDiff("the quick fox", "the slow fox").map((r) => r.kind + " " + r.text), ["same the ", "gone quick", "new slow", "same  fox"]);
	})()`},
	{"two long texts that have nothing in common are compared in a moment", `(async () => {
		const {wordDiff} = await use("words"), from = performance.now();
		wordDiff("a b ".repeat(40000), "c d ".repeat(40000));
		return performance.now() - from < 1500 ? [] : ["it took " + (performance.now() - from) + " ms"];
	})()`},
	{"logprobs belong to the sampled tokens in order, whatever was not sampled between them", `(async () => {
		const {columns} = await use("columns");
		const c = columns({tokens: [1, 2, 3, 4, 5, 6], logprobs: [-1, -2, -3], loss_mask: [[4, 6]], versions: [{start: 1, end: 2, version: 7}, {start: 4, end: 6, version: 8}], shared: 2}, null);
		return [...same([...c.logprob].map(String), ["NaN", "-1", "NaN", "NaN", "-2", "-3"]), ...same([...c.version], [-1, 7, -1, -1, 8, 8]), ...same([...c.loss], [0, 0, 0, 0, 1, 1])];
	})()`},
	{"reasoning, calls and what was said are told apart, and none of it is lost when a mark is left open", `(async () => {
		const {blocks} = await use("blocks");
		const kinds = (content, role = "assistant") => blocks({role, content}).map((b) => b.kind + ":" + (b.name ?? "") + b.text);
		return [
			...same(kinds("<think>a</think>b<tool_call>{\"name\":\"f\",\"arguments\":\"{\\\"x\\\":1}\"}</tool_call>"), ["reasoning:a", "text:b", "call:f{\n  \"x\": 1\n}"]),
			...same(kinds("a</think>b"), ["reasoning:a", "text:b"]),
			...same(kinds("b<think>cut"), ["text:b", "reasoning:cut"]),
			...same(kinds("<tool_call>{bad</tool_call>"), ["call:{bad"]),
			...same(kinds("<think>a</think>", "user"), ["text:<think>a</think>"]),
			...same(kinds("[1]", "tool"), ["result:[\n  1\n]"]),
		];
	})()`},
	{"a token shows what cannot be seen", `(async () => {
		const {visible} = await use("tokentext");
		return same([visible("a\n", 1), visible("\u202e", 2), visible("", 3), visible(null, 4), visible("\t", 5), visible("\u200d", 6), visible("\u0301", 7), visible("👩\u200d👧", 8)],
			["a⏎\n", "‹202e›", "∅", "4 ", "⇥\t", "‹200d›", "◌\u0301", "👩\u200d👧"]);
	})()`},
}

// pureParts holds the modules that compute to what they claim.
func pureParts(t *testing.T, w world) {
	tab := visit(t, w, w.base, "/")
	const helpers = `(() => {
		window.use = (name) => import(new URL("pages/parts/" + name + ".js", document.baseURI));
		window.same = (got, want) => (JSON.stringify(got) === JSON.stringify(want) ? [] : ["got " + JSON.stringify(got) + ", want " + JSON.stringify(want)]);
		return true;
	})()`
	if _, err := Ask[bool](tab, helpers); err != nil {
		t.Fatal(err)
	}
	for _, p := range parts {
		faults, err := Ask[[]string](tab, p.check)
		if err != nil {
			t.Errorf("%s: %v", p.claim, err)
		}
		for _, fault := range faults {
			t.Errorf("%s: %s", p.claim, fault)
		}
	}
}
