import { readdir, readFile } from "node:fs/promises";
import { join } from "node:path";

const source = join(import.meta.dirname, "../../../src");

/** Commands of this program and of others that a sentence may advise; test/cli/verbs/docs.test.ts types each page. */
const command =
  /(?:["'`] *|: )(?:rampart (?:authority|certificate|cluster|deny|doctor|init|issuer|kek|log|policy|root)\b|sudo |chown |chmod |openssl |kubectl |npm |npx |findmnt |sam |gh )/;

/** Findings have a table of their own. */
const ofFindings = /^(?:status|cli\/verbs\/doctor)\//;

/** The lines of the source, without comments, that advise a command. */
export async function remedyLines(): Promise<readonly string[]> {
  const found: string[] = [];
  for (const name of await readdir(source, { recursive: true })) {
    if (!/\.ts$/.test(name) || /(?:^gen|\.tsc)\//.test(name)) continue;
    if (ofFindings.test(name) && name !== "status/authorities.ts") continue;
    const text = (await readFile(join(source, name), "utf8")).replaceAll(/\/\*.*?\*\//gs, "");
    found.push(...text.split("\n").filter((line) => command.test(line) && !/^\s*\/\//.test(line)));
  }
  return found;
}

const names = "It says what prints, reads or takes something, and advises nothing.";
const seal = "It is an input of a key's derivation, and nobody sees it.";
const account = "It takes an account at Cloudflare, AWS or GitHub.";
const registry = "It takes a registry; the suite of the package types it.";
const cluster = "It takes a cluster.";
const sudo =
  "It takes sudo and a second user; test/node/files/store-owner.test.ts has what it does.";
const large =
  "It takes 100,000 certificates; the file of an authority advises the same, and is typed.";
const shows = "It takes a token with subjects; `deny remove` advises the same, and is typed.";
const compared = "It shows what a person compares; `authority list` is typed.";
const typed = "The plan of the same empty store advises the same, and is typed.";
const project = "The page of the project that `init` writes; the suite of the package types it.";

/** Texts of the source that name a command which no test types in process, and why. */
export const untyped: Readonly<Record<string, string>> = {
  "`kubectl get pod -o yaml": cluster,
  "kubectl create namespace ": cluster,
  "`kubectl get --raw /.well-known": cluster,
  "`kubectl get --raw /openid": cluster,
  "`rampart kek wrap": names,
  "place as \\`rampart kek new --help": names,
  "`rampart authority export`": names,
  "`rampart authority export\\`": names,
  "`rampart deny` stops": names,
  "`openssl -x509_strict": names,
  "`npm pack` has made": names,
  "belongs in `wrangler secret put`, and for `npm start`": names,
  '"rampart authority key"': seal,
  "rampart kek ${JSON": seal,
  '"rampart log key"': seal,
  'purpose: "rampart authority request"': seal,
  '"npm run -s rampart --"': names,
  '"npx rampart"': names,
  '"rampart log follow"': names,
  "read it by `rampart log follow`": names,
  "compare the id with `rampart authority list`": compared,
  "DENIED has none; `rampart deny list`": shows,
  '"sam deploy --parameter': account,
  '"npx wrangler secret put KEK"': account,
  "gh api repos/O/R --jq .owner.id": account,
  "gh api repos/O/R --jq .id": account,
  "`npm run console:assets": registry,
  "sudo chown -R": sudo,
  "sudo --preserve-env=KEK": sudo,
  "`rampart authority taint ${id} --root with-last-leaf\\``)": large,
  "AUTHORITY_ROOT is offline: `rampart authority request` begins one": typed,
  "1. \\`npm install": project,
  "2. \\`npx wrangler login": project,
  "3. Set what": project,
  "5. \\`npx wrangler secret": project,
  "6. \\`npm run deploy": project,
  "7. \\`npm run -s rampart": project,
};
