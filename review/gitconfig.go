package review

import (
	"bufio"
	"bytes"
	"strings"
)

// gitKeys are the settings of git-config(1) that make git run a program, take
// settings from elsewhere, or send data elsewhere. A star stands for any
// subsection.
var gitKeys = map[string]string{
	"core.fsmonitor": "runs at almost every git command", "core.hookspath": "names where hooks are", "core.sshcommand": "runs at fetch and push",
	"core.pager": "runs for output", "core.editor": "runs at commit", "core.askpass": "runs for passwords", "core.gitproxy": "runs at fetch", "core.worktree": "moves the work tree",
	"core.attributesfile": "names filters", "core.alternaterefscommand": "runs at fetch", "sequence.editor": "runs at rebase", "gpg.program": "runs to sign", "gpg.*.program": "runs to sign",
	"gpg.ssh.defaultkeycommand": "runs to sign", "credential.helper": "runs for passwords", "credential.*.helper": "runs for passwords", "diff.external": "runs at diff",
	"diff.*.command": "runs at diff", "diff.*.textconv": "runs at diff", "filter.*.clean": "runs at add and status", "filter.*.smudge": "runs at checkout", "filter.*.process": "runs at add and checkout",
	"merge.*.driver": "runs at merge", "include.path": "takes settings from another file", "includeif.*.path": "takes settings from another file", "url.*.insteadof": "sends fetches elsewhere",
	"url.*.pushinsteadof": "sends pushes elsewhere", "protocol.allow": "allows ext:: commands", "protocol.*.allow": "allows ext:: commands", "uploadpack.packobjectshook": "runs at fetch from here",
	"interactive.difffilter": "runs at add -p", "browser.*.cmd": "runs for help", "browser.*.path": "runs for help", "man.*.cmd": "runs for help", "man.*.path": "runs for help",
	"difftool.*.cmd": "runs at difftool", "difftool.*.path": "runs at difftool", "mergetool.*.cmd": "runs at mergetool", "mergetool.*.path": "runs at mergetool", "guitool.*.cmd": "runs from git gui",
	"remote.*.uploadpack": "runs at fetch", "remote.*.receivepack": "runs at push", "remote.*.vcs": "names a program for the remote", "remote.*.proxy": "sends traffic elsewhere", "http.proxy": "sends traffic elsewhere",
	"http.*.proxy": "sends traffic elsewhere", "http.sslverify": "turns checks off", "submodule.*.update": "can be a command", "trailer.*.command": "runs at commit", "trailer.*.cmd": "runs at commit",
	"tar.*.command": "runs at archive", "instaweb.httpd": "runs at instaweb", "init.templatedir": "puts hooks into new repositories", "sendemail.smtpserver": "runs at send-email",
	"sendemail.tocmd": "runs at send-email", "sendemail.cccmd": "runs at send-email", "sendemail.sendmailcmd": "runs at send-email", "imap.tunnel": "runs at imap-send", "extensions.worktreeconfig": "reads config.worktree",
	"lfs.customtransfer.*.path": "runs at lfs transfers", "lfs.extension.*.clean": "runs at add", "web.browser": "runs for help", "help.browser": "runs for help",
	"maintenance.repo": "runs maintenance elsewhere", "safe.directory": "trusts another repository", "ssh.variant": "changes how ssh is run", "hook.*.command": "runs at the event that it names",
}

// isGitConfig reports whether a folded name is that of git's configuration in a
// repository's directory.
func isGitConfig(base string) bool { return base == "config" || base == "config.worktree" }

// gitConfig returns, for each setting in a configuration file that makes git
// act on something, its key and what it does. The syntax is that of
// git-config(1); what cannot be read is ignored, as the key of a line is.
func gitConfig(text []byte) (found []string) {
	section, sub := "", ""
	seen := map[string]bool{}
	s := bufio.NewScanner(bytes.NewReader(text))
	s.Buffer(make([]byte, 0, 64<<10), maxConfig)
	for s.Scan() {
		line := strings.TrimSpace(s.Text())
		for strings.HasPrefix(line, "[") {
			var rest string
			section, sub, rest = parseSection(line)
			line = strings.TrimSpace(rest)
		}
		if line == "" || line[0] == '#' || line[0] == ';' {
			continue
		}
		key, value, _ := strings.Cut(line, "=")
		key = strings.ToLower(strings.TrimSpace(key))
		if i := strings.IndexAny(key, " \t#;"); i >= 0 {
			key = key[:i]
		}
		full, why := lookUp(section, sub, key, strings.TrimSpace(value))
		if why != "" && !seen[full] {
			seen[full] = true
			found = append(found, full+" "+why)
		}
	}
	return found
}

// lookUp returns the full name of a setting and what it does, "" when that is
// harmless.
func lookUp(section, sub, key, value string) (full, why string) {
	full = section + "." + key
	star := full
	if sub != "" {
		full = section + "." + sub + "." + key
		star = section + ".*." + key
	}
	switch {
	case section == "alias" && strings.HasPrefix(strings.Trim(value, `"`), "!"):
		return full, "runs a shell command"
	case section == "pager" && value != "" && value != "true" && value != "false":
		return full, "runs for output"
	case strings.HasPrefix(star, "submodule.") && key == "update" && !strings.HasPrefix(strings.Trim(value, `"`), "!"):
		return full, ""
	case star == "core.fsmonitor" && (value == "false" || value == "true"):
		return full, ""
	}
	if why = gitKeys[star]; why == "" {
		why = gitKeys[section+"."+key]
	}
	return full, why
}

// parseSection reads [section], [section "sub"] or [section.sub] at the start
// of a line.
func parseSection(line string) (section, sub, rest string) {
	end := len(line)
	quoted := false
	for i := 1; i < len(line) && end == len(line); i++ {
		switch c := line[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case c == ']' && !quoted:
			end = i
		}
	}
	head := line[1:end]
	if end < len(line) {
		rest = line[end+1:]
	}
	name, quotedSub, found := strings.Cut(head, `"`)
	section = strings.ToLower(strings.TrimSpace(name))
	if found {
		return section, strings.TrimSuffix(quotedSub, `"`), rest
	}
	section, sub, _ = strings.Cut(section, ".")
	return section, sub, rest
}
