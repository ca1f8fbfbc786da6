package rule

import (
	"fmt"
	"slices"
	"strings"
)

// Parse reads one rule:
//
//	rule    = plan [ "(" [ input { "," input } ] ")" ] [ "->" output { "," output } ]
//	input   = ( "PR" | "HR" ) "=" ( value | "*" )
//	output  = "PR" | "HR" | "S" | "EU"
//
// Each input and each output may occur once. Space, tab, CR, LF and FF may stand
// between tokens. Plans and values are letters, digits, "-", "_" and ".", begin and
// end with a letter or digit and have at most 63 characters. The error is a Faults.
// After a fault, Parse skips what it cannot read, and reports later faults too.
func Parse(text string) (Entry, error) {
	p, faults := parseRule(1, text)
	return p.Entry, faults.orNil()
}

// parsed is an entry with its place in the rule set.
type parsed struct {
	Entry
	number int
	text   string
	column int // of the plan
}

func (p parsed) fault(kind Kind, format string, args ...any) Fault {
	return Fault{Rule: p.number, Text: p.text, Column: p.column, Kind: kind, Message: fmt.Sprintf(format, args...)}
}

func parseRule(number int, text string) (parsed, Faults) {
	p := parser{scanner: newScanner(text), parsed: parsed{number: number, text: text}}
	p.advance()
	p.column = column(text, p.token.offset)
	p.plan()
	if p.token.kind == tokenOpen {
		p.advance()
		p.inputSection()
		p.sync(`"->" or the end of the rule`, tokenArrow)
	}
	if p.token.kind == tokenArrow {
		p.advance()
		p.outputSection()
	}
	return p.parsed, p.faults
}

// parser continues after a fault at the next token that can begin or end a part, so that one run reports
// several faults of a rule.
type parser struct {
	*scanner
	parsed
	token  token
	seen   []string // attributes read so far in this section
	faults Faults
}

func (p *parser) advance() { p.token = p.next() }

// fail reports the current token. It ignores a second report about the same token, which would only be a
// consequence of the first.
func (p *parser) fail(found, expected string) {
	at := column(p.parsed.text, p.token.offset)
	if n := len(p.faults); n > 0 && p.faults[n-1].Column == at {
		return
	}
	p.faults = append(p.faults, Fault{
		Rule: p.number, Text: p.parsed.text, Column: at, Kind: Syntax,
		Message: fmt.Sprintf("found %s, expected %s", found, expected),
	})
}

// sync checks that the current token is one of kinds or the end. Otherwise it reports the token and skips to
// one of them.
func (p *parser) sync(expected string, kinds ...tokenKind) {
	if !p.at(kinds) {
		p.fail(p.token.String(), expected)
		p.skip(kinds...)
	}
}

func (p *parser) skip(kinds ...tokenKind) {
	for !p.at(kinds) {
		p.advance()
	}
}

func (p *parser) at(kinds []tokenKind) bool {
	return p.token.kind == tokenEnd || slices.Contains(kinds, p.token.kind)
}

func (p *parser) plan() {
	if name, ok := p.name("a plan"); ok {
		p.Plan = name
	}
	p.sync(`"(", "->" or the end of the rule`, tokenOpen, tokenArrow)
}

// name reads a name token, and reports its flaw if it has one. It reports any other token, with what as the
// expected one, and returns false.
func (p *parser) name(what string) (string, bool) {
	t := p.token
	if t.kind != tokenName {
		p.fail(t.String(), what)
		return "", false
	}
	if flaw := t.flaw(); flaw != "" {
		p.fail(t.String(), "a name "+flaw)
	}
	p.advance()
	return t.text, true
}

func (p *parser) inputSection() {
	p.seen = p.seen[:0]
	if p.token.kind == tokenClose {
		p.advance()
		return
	}
	expected := `PR, HR or ")"`
	for {
		if !p.input(expected) {
			p.skip(tokenComma, tokenClose, tokenArrow)
		}
		expected = "PR or HR"
		p.sync(`"," or ")"`, tokenComma, tokenClose, tokenArrow)
		switch p.token.kind {
		case tokenComma:
			p.advance()
		case tokenClose:
			p.advance()
			return
		default:
			p.fail(p.token.String(), `"," or ")"`)
			return
		}
	}
}

// input reads one attribute with its value. It returns false if the rest must be skipped.
func (p *parser) input(expected string) bool {
	target := &p.PlatformRegion
	switch p.token.text {
	case "PR":
	case "HR":
		target = &p.HyperscalerRegion
	default:
		p.fail(p.attribute(expected, "PR", "HR"))
		return false
	}
	p.once()
	p.advance()
	if p.token.kind != tokenEqual {
		p.fail(p.token.String(), `"="`)
		return false
	}
	p.advance()
	if p.token.kind == tokenStar {
		p.advance()
		return true
	}
	var ok bool
	*target, ok = p.name(`a value or "*"`)
	return ok
}

func (p *parser) outputSection() {
	p.seen = p.seen[:0]
	for {
		if bit, ok := outputNamed(p.token.text); ok {
			p.once()
			p.Outputs |= bit
			p.advance()
		} else {
			p.fail(p.attribute("PR, HR, S or EU", "PR", "HR", "S", "EU"))
			p.skip(tokenComma)
		}
		p.sync(`"," or the end of the rule`, tokenComma)
		if p.token.kind == tokenEnd {
			return
		}
		p.advance()
	}
}

// once reports the current attribute if its section has it already.
func (p *parser) once() {
	if slices.Contains(p.seen, p.token.text) {
		p.fail("a second "+p.token.text, "each attribute at most once in a section")
	}
	p.seen = append(p.seen, p.token.text)
}

// attribute returns the token that is in the place of an attribute, and the expected ones, with a remark if
// it differs from one of them only in case.
func (p *parser) attribute(expected string, names ...string) (found, want string) {
	for _, n := range names {
		if strings.EqualFold(n, p.token.text) {
			return p.token.String(), expected + " (names are case-sensitive)"
		}
	}
	return p.token.String(), expected
}
