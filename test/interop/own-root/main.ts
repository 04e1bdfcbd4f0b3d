import { mkdir, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Outcome, reportOutcomes } from "../agent/outcome-table.ts";
import { envoyOf, pythonWithEnvoy } from "../envoy.ts";
import { istioCa } from "../istio-ca/software.ts";
import { fromGoModule, ofTheMachine, type Software } from "../software.ts";
import { playEnvoys, type Told } from "./envoy-story.ts";
import {
  type Accepted,
  acceptedMutants,
  askInLines,
  faultsOf,
  gnutlsFault,
  istiodsQuestion,
  opensslFault,
  requireFoundGood,
} from "./mutants.ts";
import { playVault } from "./vault-story.ts";

const outcomes: Outcome[] = [];

/** Notes what a step has shown. A story ends with its first fault. */
const telling =
  (client: string, server: string): Told =>
  async (what, act) => {
    const outcome = await act().then(
      (detail) => ({ client, server, what, result: "ok" as const, detail }),
      (error) => ({ client, server, what, result: "FAILED" as const, detail: String(error) }),
    );
    outcomes.push(outcome);
    console.error(`${outcome.result}: ${what}: ${outcome.detail}`);
  };

async function playReplacements(folder: string): Promise<void> {
  const [client, server] = ["Envoy 1.40.0, twice (one incremental)", "rampart agent, serve"];
  const python = await pythonWithEnvoy();
  if ("missing" in python) {
    const what = "intermediates are replaced";
    outcomes.push({ client, server, what, result: "NOT RUN", detail: python.missing });
  } else {
    const own = join(folder, "envoys");
    await mkdir(own);
    await playEnvoys(await envoyOf(python.program), own, telling(client, server));
  }
}

async function playUpstream(folder: string): Promise<void> {
  const [client, server] = ["rampart serve", "PKI engine of Vault 1.14.8 (OpenBao's origin)"];
  const vault = await fromGoModule(join(import.meta.dirname, "vault-pki"), "vault-pki");
  if ("missing" in vault) {
    const what = "intermediates of Vault";
    outcomes.push({ client, server, what, result: "NOT RUN", detail: vault.missing });
    return;
  }
  const own = join(folder, "vault");
  await mkdir(own);
  await playVault(vault.program, own, telling(client, server));
}

/** The verifiers of the leaves, and the warning of ours for which each may refuse one. */
async function playMutants(folder: string): Promise<void> {
  const accepted = await acceptedMutants();
  const leaves = accepted.map(({ leaf }) => leaf);
  const client = "mutated CAs of others";
  const isWarned = (words: string) => (each: Accepted) =>
    each.warnings.some((warning) => warning.includes(words));
  const go = await fromGoModule(join(import.meta.dirname, "oracle"), "own-root-oracle");
  await judge(client, "Go's crypto/x509", go, async (program) =>
    requireFoundGood(accepted, await askInLines(program, [], leaves)),
  );
  await judge(client, "Istio's NewVerifiedKeyCertBundleFromPem", await istioCa(), async (istio) =>
    requireFoundGood(
      accepted,
      await askInLines(istio, ["-bundles"], accepted.map(istiodsQuestion)),
    ),
  );
  const openssl = await ofTheMachine("openssl", ["version"], /^OpenSSL 3/);
  await judge(client, "openssl verify", openssl, async () =>
    requireFoundGood(
      accepted,
      await faultsOf(accepted, opensslFault(folder)),
      isWarned("OpenSSL refuses it without -partial_chain"),
    ),
  );
  await judge(client, "openssl verify -x509_strict", openssl, async () =>
    requireFoundGood(
      accepted,
      await faultsOf(accepted, opensslFault(folder, "-x509_strict", "-partial_chain")),
      isWarned("`openssl -x509_strict`"),
    ),
  );
  const gnutls = await ofTheMachine("certtool", ["--version"], /certtool 3/);
  await judge(client, "GnuTLS", gnutls, async () =>
    requireFoundGood(
      accepted,
      await faultsOf(accepted, gnutlsFault(folder)),
      isWarned("ztunnel and GnuTLS refuse"),
    ),
  );
}

async function judge(
  client: string,
  server: string,
  software: Software,
  act: (program: string) => Promise<string>,
): Promise<void> {
  const what = "no leaf under an imported CA is refused";
  if ("program" in software) {
    await telling(client, server)(what, () => act(software.program));
    return;
  }
  outcomes.push({ client, server, what, result: "NOT RUN", detail: software.missing });
}

const folder = await mkdtemp(join(tmpdir(), "interop-"));
try {
  await playMutants(folder);
  await playReplacements(folder);
  await playUpstream(folder);
} catch (error) {
  console.error(error);
  const names = { client: "the whole suite", server: "rampart", what: "to its end" };
  outcomes.push({ ...names, result: "FAILED", detail: String(error) });
}
reportOutcomes(outcomes);
if (process.exitCode === 0) await rm(folder, { recursive: true });
else console.error(`what the programs said: ${folder}`);
process.exit();
