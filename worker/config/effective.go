package config

import (
	"net/url"
	"reflect"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Hidden replaces secrets in output.
const Hidden = "REDACTED"

// String returns the effective configuration as YAML, without secrets.
func (c *Config) String() string { return string(c.Effective()) }

// Effective returns the configuration as YAML with every key, in the order of the structs and without
// secrets. Of the two forms of rules it has only the one in use.
func (c *Config) Effective() []byte {
	root := &yaml.Node{Kind: yaml.MappingNode}
	for _, l := range leaves(c) {
		if hapRules[l.path] && (l.path == "hap.rule") != (c.HAP.Rule != nil) {
			continue
		}
		value := &yaml.Node{}
		if err := value.Encode(hide(l, l.plain())); err != nil {
			continue // never happens: the values are texts, numbers, and lists and maps of these
		}
		insert(root, strings.Split(l.path, "."), value)
	}
	content, err := yaml.Marshal(root)
	if err != nil {
		return nil
	}
	return content
}

func insert(section *yaml.Node, path []string, value *yaml.Node) {
	for ; len(path) > 1; path = path[1:] {
		var below *yaml.Node
		for i := 0; i+1 < len(section.Content); i += 2 {
			if section.Content[i].Value == path[0] {
				below = section.Content[i+1]
			}
		}
		if below == nil {
			below = &yaml.Node{Kind: yaml.MappingNode}
			section.Content = append(section.Content, name(path[0]), below)
		}
		section = below
	}
	section.Content = append(section.Content, name(path[0]), value)
}

func name(key string) *yaml.Node { return &yaml.Node{Kind: yaml.ScalarNode, Value: key} }

// hide returns a plain value without secrets. It also hides the content of a file that was entered instead of
// its path, as happens with keys.
func hide(l leaf, value any) any {
	if _, urls := reflect.TypeAssert[URLs](l.value); urls {
		l.secret = "url"
	}
	switch v := value.(type) {
	case string:
		if l.secret == "url" {
			return hideURL(v)
		}
		if inline(v) && !hapRules[l.path] { // a rule may have several lines, and names no file
			return Hidden
		}
	case []string:
		hidden := make([]string, len(v))
		for i := range v {
			hidden[i], _ = hide(l, v[i]).(string)
		}
		return hidden
	case map[string]string:
		hidden := make(map[string]string, len(v))
		for key := range v {
			hidden[key] = Hidden
		}
		return hidden
	}
	return value
}

// inline reports whether text looks like a PEM block, the content of a .creds file or an nkey seed, or has several
// lines, instead of being a path.
func inline(text string) bool {
	return strings.Contains(text, "-----BEGIN") || strings.Contains(text, "\n") ||
		len(text) == 58 && text[0] == 'S' && !strings.ContainsAny(text, "/.")
}

// hideURL hides passwords, users without a password (NATS accepts a token there), and parameters whose name
// suggests a secret. If text cannot be parsed as a URL or host:port, it returns Hidden.
func hideURL(text string) string {
	if text == "" {
		return ""
	}
	hostPort := !strings.Contains(text, "://")
	if hostPort {
		text = "//" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Opaque != "" {
		return Hidden
	}
	if u.User != nil {
		if _, has := u.User.Password(); has {
			u.User = url.UserPassword(u.User.Username(), Hidden)
		} else {
			u.User = url.User(Hidden)
		}
	}
	query := u.Query()
	for key := range query {
		if secretName(key) {
			query.Set(key, Hidden)
			u.RawQuery = query.Encode()
		}
	}
	shown := u.String()
	if hostPort {
		shown = strings.TrimPrefix(shown, "//")
	}
	return shown
}

func secretName(key string) bool {
	key = strings.ToLower(key)
	for _, word := range []string{"pass", "secret", "token", "key", "auth"} {
		if strings.Contains(key, word) {
			return true
		}
	}
	return false
}
