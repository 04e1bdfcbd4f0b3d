import { mkdir, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";

const root = join(import.meta.dirname, "../../..");

/**
 * Programs that stand for those of an account, an engine or a service manager. Each refuses what the real one would
 * not know, and does as much of the rest as a page needs.
 */
const scripts = {
  /** `wrangler` without an account knows the commands and options of the one that is installed. */
  npx: `[ "$1" = wrangler ] || PATH="\${PATH#"$HOME/bin:"}" exec npx "$@"
shift
help="$("${root}/node_modules/.bin/wrangler" "$@" --help 2>&1)"
echo "$help" | grep -q "^wrangler $1\${2:+ $2}\\b"
for word; do case "$word" in --*) echo "$help" | grep -q -e "$word\\b" ;; esac; done
[ -t 0 ] || cat > /dev/null`,

  /** An engine builds from a Dockerfile that is there, with arguments that it has, and pushes what it has built. */
  docker: `verb="$1"; shift
if [ "$verb" = push ]; then exec grep -qxF "$1" "$HOME/images"; fi
[ "$verb" = build ]
while [ $# -gt 1 ]; do
  case "$1" in
    -f) file="$2"; test -f "$file" ;;
    --build-arg) grep -q "^ARG \${2%%=*}\\b" "$file" ;;
    -t) echo "$2" >> "$HOME/images" ;;
    *) exit 1 ;;
  esac
  shift 2
done
[ "$1" = . ]`,

  sudo: `exec "$@"`,

  /** An editor of a reader who changes something. */
  editor: `echo "# edited" >> "$1"`,

  /** A service manager for one unit, whose paths are in \`$MACHINE\`. */
  systemctl: `verb="$1"
[ "$verb" = daemon-reload ] && exit
for name; do :; done
unit="$MACHINE/etc/systemd/system/$name.service"
value() { sed -n "s|^$1=||p" "$unit"; }
case "$verb" in
  enable)
    [ "$2" = --now ]
    # The reader has ended the program that the service takes the place of.
    kill "$(cat "$HOME/serve.pid")"
    while kill -0 "$(cat "$HOME/serve.pid")" 2> /dev/null; do sleep 0.1; done
    set -a; . "$MACHINE$(value EnvironmentFile)"; set +a
    rampart $(value ExecStart | sed "s|^/usr/local/bin/rampart ||; s|/etc/|$MACHINE/etc/|") > "$HOME/journal" 2>&1 & ;;
  reload)
    [ "$(value ExecReload)" = '/bin/kill -HUP $MAINPID' ]
    kill -HUP "$(cat "$HOME/serve.pid")" ;;
  *) exit 1 ;;
esac`,

  journalctl: `[ "$1 $2 $3 $4" = "-u rampart-serve -n 20" ]
tail -n 20 "$HOME/journal"`,
} as const;

/** Puts such programs first into the PATH of a reader's folder. */
export async function standIn(
  folder: string,
  ...names: readonly (keyof typeof scripts)[]
): Promise<void> {
  const bin = join(folder, ".home/bin");
  await mkdir(bin, { recursive: true });
  for (const name of names) {
    await writeFile(join(bin, name), `#!/bin/sh -eu\n${scripts[name]}\n`, { mode: 0o755 });
  }
}

/** Has the wrangler of a project bundle and judge what it would deploy, which takes no account. */
export async function standInWrangler(project: string): Promise<void> {
  const program = join(project, "node_modules/.bin/wrangler");
  await rm(program);
  const real = join(project, "node_modules/wrangler/bin/wrangler.js");
  await writeFile(program, `#!/bin/sh\nexec node "${real}" "$@" --dry-run\n`, { mode: 0o755 });
}

/** A text whose absolute paths lie in a folder that stands for the root of a machine. */
export const onMachine = (text: string, machine: string): string =>
  text.replaceAll(/(^|[\s"])\/(etc|usr\/local|var\/lib)\//gm, `$1${machine}/$2/`);
