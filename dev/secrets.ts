import { randomBytes } from "node:crypto";
import { existsSync } from "node:fs";
import { readdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { OperatorError } from "../src/foundation/errors.ts";

/** The file of the secrets, and the id of its KEK if this start made it. */
interface DevelopmentSecrets {
  readonly file: string;
  readonly mintedKekId?: string;
}

/**
 * Makes sure that `.dev.vars` exists in `root`. An existing file is never changed: its KEK may be the
 * only one that opens the stored authority.
 *
 * @param issuer The development cluster's: a new file trusts no other.
 * @throws OperatorError when the file is gone but authorities sealed under its KEK are still stored.
 */
export async function prepareDevelopmentSecrets(
  root: string,
  issuer: string,
  now: Date,
): Promise<DevelopmentSecrets> {
  const file = ".dev.vars";
  if (existsSync(join(root, file))) return { file };
  if (await holdsAuthorities(root)) {
    throw new OperatorError(
      `${file} is gone, and with it the key-encryption key that sealed the authority in\n` +
        ".wrangler/state: nothing else opens it. Restore the file, or delete the authority:\n\n" +
        "  rm -r .wrangler/state\n\nThe next start then creates a new one.",
    );
  }
  const kekId = `dev-${now.toISOString().slice(0, 7)}`;
  await writeFile(join(root, file), fileText(kekId, issuer), { mode: 0o600, flag: "wx" });
  return { file, mintedKekId: kekId };
}

/** Miniflare keeps one folder per KV namespace, beside its own bookkeeping. */
async function holdsAuthorities(root: string): Promise<boolean> {
  const folder = join(root, ".wrangler/state/v3/kv");
  const namespaces = existsSync(folder) ? await readdir(folder) : [];
  return namespaces.some((name) => !name.startsWith("miniflare-"));
}

/**
 * `wrangler.toml` must have no `secrets.required`: with it, wrangler would ignore every name here that is
 * neither required nor one of `[vars]`.
 */
function fileText(kekId: string, issuer: string): string {
  const issuers = [
    {
      issuer,
      audiences: ["istio-ca"],
      cluster: "Kubernetes",
      trusted_node_accounts: ["istio-system/ztunnel"],
      node_reach: "anywhere",
    },
  ];
  return `\
# Written by npm start, for development on this machine alone. Ignored by git: keep it that way.
# The KEK seals the authority in .wrangler/state. Delete both together, or neither.
KEK="${kekId}:${randomBytes(32).toString("base64")}"
ISSUERS='${JSON.stringify(issuers)}'
# The store has one reader here: an authority may sign as soon as it is published.
PROPAGATION_INTERVAL="0s"
# A revoked certificate is on a list that anybody may read: npm run -s rampart -- docs revocation.
CRL="on"
`;
}
