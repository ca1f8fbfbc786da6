package operator

import "github.com/hap-worker/hap-worker/engine/rule"

// readRules reads a file of rules, standard input for "-". A file that is no
// file of rules is a rule.Faults.
func (s *shell) readRules(path string) (rule.File, error) {
	content, err := s.readText(path, "rules")
	if err != nil {
		return rule.File{}, err
	}
	return rule.ReadFile(content)
}

// labelKeys are those of --config, for a file of rules that names none itself.
func (s *shell) labelKeys(file rule.File) rule.Labels {
	if file.Labels != (rule.Labels{}) || s.connections.file() == "" {
		return file.Labels
	}
	cfg, err := s.connections.settings()
	if err != nil {
		s.say("selectors have the standard keys of labels: %v", err)
		return file.Labels
	}
	return rule.Labels(cfg.Gardener.Labels)
}

// checkRules finds every fault of whichever form the file has, and counts what it has.
func checkRules(file rule.File, opts rule.Options) (faults rule.Faults, warnings []rule.Fault, has string) {
	opts.InternalTenants = file.Internal
	if file.Older == nil {
		faults, warnings = rule.Check(file.Texts, opts)
		return faults, warnings, count(len(file.Texts), "rule")
	}
	faults, warnings = rule.CheckLists(*file.Older, opts)
	members, _ := file.Older.Members()
	return faults, warnings, count(len(members), "member") + " of the older lists"
}
