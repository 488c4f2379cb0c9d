"""Programs and words that deserve attention, by their possible effect. For `ledger.policy.shell.facts`.

Programs have their plain names (`ledger.policy.shell.names`). A pattern is searched in the arguments, joined by blanks.
Doubtful programs are listed.
"""

from __future__ import annotations

import re
from typing import Final


def _sub_commands(**patterns: str) -> dict[str, re.Pattern[str]]:
    """Return patterns for the first words that are not options: `git -C x push`."""
    head = r"\A(?:-\S+(?: [^-\s]\S*)? )*?"
    return {name.replace("_", "-"): re.compile(rf"{head}(?:{pattern})") for name, pattern in patterns.items()}


def _anywhere(**patterns: str) -> dict[str, re.Pattern[str]]:
    """Return patterns for any word."""
    return {name.replace("_", "-"): re.compile(rf"(?:\A| )(?:{pattern})") for name, pattern in patterns.items()}


PRIVILEGES: Final = frozenset({
    "sudo", "doas", "su", "run0", "runuser", "pkexec", "chroot", "nsenter", "unshare", "setpriv", "runcon", "sg", "newgrp",
    "visudo", "sudoedit", "usermod", "useradd", "userdel", "groupadd", "groupmod", "passwd", "chpasswd", "chsh", "setcap",
    "chown", "chgrp", "setfacl", "mount", "umount", "insmod", "modprobe", "sysctl", "systemctl", "launchctl", "crontab",
})  # fmt: skip

PRIVILEGE_WORDS: Final = _anywhere(
    chmod=r"(?:[ugoa]*[+=][rwxXt]*s|[2467][0-7]{3}\b|0[2467][0-7]{3}\b)",
    docker=r"(?:--privileged|--cap-add|--pid[= ]host|(?:-v|--volume)[= ]?/|--mount)",
    podman=r"(?:--privileged|--cap-add|--pid[= ]host|(?:-v|--volume)[= ]?/|--mount)",
)

DELETERS: Final = frozenset({
    "rm", "rmdir", "unlink", "shred", "srm", "wipe", "wipefs", "truncate", "dd", "blkdiscard", "fdisk", "sfdisk", "parted",
    "mkfs", "mke2fs", "mkswap", "dropdb", "dropuser", "trash", "trash-put", "rimraf", "killall", "pkill", "kill",
    "mkfs.ext4", "mkfs.ext3", "mkfs.xfs", "mkfs.btrfs", "mkfs.vfat", "del", "erase", "rd", "remove-item",
})  # fmt: skip

DELETING_WORDS: Final = {
    **_sub_commands(
        git=r"(?:clean\b|reset\b.* --hard|reset --hard|push\b.* (?:-f|--force\S*|-d|--delete|--mirror|\+\S+|:\S+)(?: |\Z)|"
        r"branch\b.* (?:-[a-zA-Z]*[dD]|--delete)|stash (?:drop|clear)|checkout\b.* (?:--|-f|\.)(?: |\Z)|restore\b|rm\b|"
        r"worktree remove|tag\b.* (?:-d|--delete)|reflog (?:delete|expire)|gc\b.* --prune|update-ref\b.* -d|filter-branch|filter-repo)",
        docker=r"(?:rm|rmi|kill|(?:\S+ )?(?:rm|prune|remove)|down\b.* -v)(?: |\Z)",
        podman=r"(?:rm|rmi|kill|(?:\S+ )?(?:rm|prune|remove))(?: |\Z)",
        kubectl=r"(?:delete|drain|replace\b.* --force)\b",
        helm=r"(?:uninstall|delete)\b",
        terraform=r"(?:destroy|apply\b.* -destroy|state rm)\b",
        tofu=r"(?:destroy|state rm)\b",
        aws=r"(?:s3 (?:rm|rb)|s3 sync\b.* --delete|\S+ (?:delete|terminate|remove)-\S+)",
        gcloud=r"(?:.* )?delete\b",
        az=r"(?:.* )?(?:delete|purge)\b",
        gh=r"\S+ delete\b",
        npm=r"(?:unpublish|deprecate)\b",
    ),
    **_anywhere(
        find=r"-delete\b",
        fd=r"(?:-x|-X|--exec\S*)",
        rsync=r"(?:--del\S*|--remove-source-files)",
        redis_cli=r"(?i:.*\b(?:flushall|flushdb|del|unlink)\b)",
        valkey_cli=r"(?i:.*\b(?:flushall|flushdb|del|unlink)\b)",
        psql=r"(?i:.*\b(?:drop|truncate|delete)\b)",
        mysql=r"(?i:.*\b(?:drop|truncate|delete)\b)",
        sqlite=r"(?i:.*\b(?:drop|delete)\b)",
        mv=r"(?:-[a-zA-Z]*f|--force)",
        crontab=r"-r\b",
    ),
}

DOWNLOADERS: Final = frozenset(
    {"curl", "wget", "wget2", "aria2c", "fetch", "http", "https", "xh", "curlie", "axel", "lynx"}
)

NETWORK: Final = DOWNLOADERS | {
    "nc", "ncat", "netcat", "socat", "telnet", "ftp", "sftp", "scp", "ssh", "ssh-copy-id", "ssh-keyscan", "mosh", "rsh",
    "rclone", "aws", "gcloud", "gsutil", "az", "gh", "glab", "heroku", "fly", "flyctl", "vercel", "netlify", "kubectl",
    "helm", "ansible", "ansible-playbook", "terraform", "tofu", "psql", "mysql", "mongosh", "redis-cli", "valkey-cli",
    "dig", "nslookup", "host", "ping", "traceroute", "nmap", "whois", "mail", "sendmail", "mutt", "swaks", "twine",
    "npx", "bunx", "pnpx", "uvx", "apt", "apt-get", "dnf", "yum", "apk", "pacman", "zypper", "brew", "snap", "flatpak",
    "ngrok", "cloudflared", "tailscale", "croc", "magic-wormhole", "wormhole", "invoke-webrequest", "iwr",
}  # fmt: skip

NETWORK_WORDS: Final = _sub_commands(
    git=r"(?:push|pull|fetch|clone|ls-remote|remote (?:update|show|prune)|submodule (?:update|add)|send-email|archive\b.* --remote)\b",
    rsync=r"(?:.* )?[^/ ]+:",
    openssl=r"s_(?:client|server)\b",
    npm=r"(?:install|i|ci|add|update|publish|exec|x|login|audit)\b",
    pnpm=r"(?:install|i|add|update|publish|dlx|exec)\b",
    yarn=r"(?:install|add|upgrade|publish|dlx)\b",
    bun=r"(?:install|i|add|update|publish|x)\b",
    pip=r"(?:install|download|wheel|index)\b",
    pipx=r"(?:install|run|upgrade)\b",
    uv=r"(?:pip install|add|sync|tool|lock|publish|run\b.* --with)\b",
    poetry=r"(?:install|add|update|publish)\b",
    cargo=r"(?:install|publish|fetch|update|login|yank)\b",
    go=r"(?:get|install|mod (?:download|tidy)|run \S+@)",
    gem=r"(?:install|push|update|yank)\b",
    bundle=r"(?:install|update)\b",
    composer=r"(?:install|require|update)\b",
    docker=r"(?:pull|push|login|run|build|compose (?:up|pull|build|run)|image (?:pull|push))\b",
    podman=r"(?:pull|push|login|run|build)\b",
    conda=r"(?:install|create|update)\b",
)

FETCHING_RUNNERS: Final = {
    **_sub_commands(
        npm=r"(?:install|i|ci|add|update|exec|x|create|init \S+)\b",
        pnpm=r"(?:install|i|add|update|dlx|create)\b",
        yarn=r"(?:\Z|install|add|upgrade|dlx|create)\b",
        bun=r"(?:install|i|add|update|x|create)\b",
        pip=r"(?:install|wheel)\b",
        pipx=r"(?:install|run|upgrade)\b",
        uv=r"(?:pip install|add|sync|tool (?:run|install)|run\b.* --with)\b",
        python=r"-m (?:pip|pipx|ensurepip|uv)\b",
        poetry=r"(?:install|add|update)\b",
        cargo=r"install\b",
        go=r"(?:install|run) \S+@",
        gem=r"(?:install|update)\b",
        bundle=r"(?:install|update)\b",
        composer=r"(?:install|require|update)\b",
        docker=r"(?:run|compose (?:up|run)|build)\b",
        podman=r"(?:run|build)\b",
        deno=r"(?:run|install)\b.*(?:https?:|npm:|jsr:)",
        conda=r"(?:install|create|update)\b",
        apt=r"(?:install|upgrade|full-upgrade)\b",
        apt_get=r"(?:install|upgrade|dist-upgrade)\b",
        dnf=r"(?:install|upgrade|update)\b",
        yum=r"(?:install|upgrade|update)\b",
        apk=r"(?:add|upgrade)\b",
        brew=r"(?:install|upgrade|reinstall|tap)\b",
        snap=r"install\b",
        flatpak=r"install\b",
    ),
    **dict.fromkeys(("npx", "bunx", "pnpx", "uvx"), re.compile("")),
}

INTERPRETERS: Final = frozenset({
    "python", "node", "deno", "bun", "perl", "ruby", "php", "lua", "tclsh", "osascript", "awk", "java", "dotnet", "go",
    "make", "eval", "source", ".", "exec", "xargs", "chmod", "invoke-expression", "iex",
})  # fmt: skip

SECRET: Final = re.compile(
    r"""(?ix)
    (?:\A|[/=@:~])\.(?:ssh|gnupg|aws|azure|kube|docker|password-store|gcloud|oci|vault-token|terraform\.d)(?:/|\Z)
    |(?:\A|[/=@:])\.(?:env(?:rc|\.[\w.-]+)?|netrc|npmrc|pypirc|pgpass|my\.cnf|git-credentials|htpasswd|boto|s3cfg)\Z
    |\bid_(?:rsa|dsa|ecdsa|ed25519)\b
    |/etc/(?:shadow|gshadow|sudoers|ssl/private|krb5\.keytab)|/proc/[^/]+/environ
    |\.(?:pem|key|p12|pfx|jks|keystore|kdbx|keychain(?:-db)?|ovpn)\Z
    |(?:\A|[/._-])(?:credentials?|secrets?|passwords?|tokens?|api[_-]?keys?)(?:\.\w+)?\Z
    |\.config/(?:gh|gcloud|hub|rclone|op)\b
    |\$\{?\w*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|PRIVATE_?KEY|CREDENTIAL)\w*
    |\b(?:Login\ Data|Cookies|logins\.json|key4\.db)\Z
    """
)

OWN_FILES: Final = frozenset(
    {"/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/zero", "/dev/tty", "-", ""}
)

PROGRAM_FOLDERS: Final = frozenset({"/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/opt/homebrew/bin"})
