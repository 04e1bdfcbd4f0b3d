import { X509Certificate } from "node:crypto";
import { createServer } from "node:http";
import { parse } from "smol-toml";
import { serveCa, servedName } from "../../testkit/ca/served-ca.ts";
import { platformClaims } from "../../testkit/callers/foreign-tokens.ts";
import { createWorkload } from "../../testkit/callers/workload.ts";
import { listenOnLoopback } from "../../testkit/network/loopback.ts";
import { type NativeClient, nativeClient } from "../../testkit/network/native-grpc.ts";
import { runRampart } from "../../testkit/programs/rampart-process.ts";
import { lastingFolder } from "../../testkit/temporary-folder.ts";
import { until } from "../../testkit/time/until.ts";
import { type Outcome, report } from "../outcomes.ts";
import { fromGoRelease } from "../software.ts";
import { playFederation } from "./federation.ts";
import { type Spire, startSpire } from "./spire.ts";

const client = "SPIRE v1.13.0's tokens";
const server = "rampart serve";
const folder = await lastingFolder();
const { csrPem: csr } = await createWorkload();
const outcomes: Outcome[] = [];
const { sub, aud, iss } = platformClaims.spiffe;
const identity = "spiffe://cluster.local/ns/at-spiffe/sa/deploy";

/** The table that the recipe prints for the right caller. @param jwks_uri Where SPIRE's keys are. */
async function tableOf(jwks_uri: string): Promise<object> {
  const whose = ["--issuer", iss, "--spiffe-id", sub, "--audience", aud[0] ?? ""];
  const place = ["--namespace", "at-spiffe", "--account", "deploy", "--for", "serve"];
  const printed = await runRampart(["issuer", "enrol", "spiffe", ...whose, ...place]);
  const { ISSUERS } = parse(printed) as { ISSUERS: object[] };
  return { ...ISSUERS[0], jwks_uri };
}

/** Asks for a certificate with a token, maybe for another identity. @returns Its SPIFFE ID, or a code. */
async function ask(caller: NativeClient, token: string, named?: string): Promise<string> {
  const metadata = named === undefined ? {} : { metadata: { ImpersonatedIdentity: named } };
  const headers = { authorization: `Bearer ${token}` };
  const outcome = await caller.createCertificate({ csr, ...metadata }, headers);
  if (!("certChain" in outcome)) return outcome.code;
  const { subjectAltName = "" } = new X509Certificate(outcome.certChain[0] ?? "");
  return subjectAltName.replace(/^URI:/, "");
}

/** What bearers get, before and after SPIRE signs with another key, for which the CA looks once in 30 seconds. */
async function playTokens({ mint, ask: type }: Spire, caller: NativeClient): Promise<void> {
  const faults: string[] = [];
  let passed = 0;
  const mustGet = async (what: string, expected: string, ...asked: [string, string?]) => {
    const got = await ask(caller, ...asked);
    if (got === expected) passed++;
    else faults.push(`${what}: ${got} in place of ${expected}`);
  };
  const first = await mint(sub, aud);
  const others = await mint("spiffe://other.test/ns/billing/sa/other", aud);
  await mustGet("the right caller", identity, first);
  await mustGet("another caller", "Unauthenticated", others);
  await mustGet("another audience", "Unauthenticated", await mint(sub, ["https://other.test"]));
  const named = identity.replace("spiffe/", "github/");
  await mustGet("another identity by name", "PermissionDenied", await mint(sub, aud), named);
  const prepared = await type("localauthority", "jwt", "prepare");
  const [, id = ""] = /Authority ID: (\S+)/.exec(prepared) ?? [];
  await type("localauthority", "jwt", "activate", "-authorityID", id);
  const isTaken = async () => (await ask(caller, await mint(sub, aud))) === identity;
  await until("a new key is not found", isTaken, 120).then(
    () => passed++,
    (error: unknown) => faults.push(String(error)),
  );
  outcomes.push({ client, server, passed, faults });
}

async function play(program: string): Promise<void> {
  await using ends = new AsyncDisposableStack();
  const spire = await startSpire(program, folder);
  ends.defer(spire.end);
  const published = createServer(async (_, response) => {
    response.setHeader("content-type", "application/json").end(await spire.bundle());
  });
  const { host, close } = await listenOnLoopback(published);
  ends.defer(close);
  const ca = await serveCa({ ISSUERS: [await tableOf(`http://${host}/`)] });
  ends.defer(ca.end);
  const caller = nativeClient(ca.port, servedName, { roots: await ca.bundle() });
  ends.defer(async () => caller.close());
  await playTokens(spire, caller);
  outcomes.push(...(await playFederation(program, folder)));
}

for (const signal of ["SIGINT", "SIGTERM"]) process.once(signal, () => process.exit(1));

const software = await fromGoRelease("github.com/spiffe/spire", "v1.13.0", "cmd/spire-server", {
  seconds: 1500,
});
if ("missing" in software)
  outcomes.push({ client, server: "all", passed: 0, faults: [], ...software });
else await play(software.program);
report(outcomes);
process.exit();
