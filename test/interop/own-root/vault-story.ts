import { X509Certificate } from "node:crypto";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { runWell } from "../../testkit/programs/child-process.ts";
import { until } from "../../testkit/time/until.ts";
import type { Certified } from "../revocation/workloads.ts";
import { type ServingCa, startServingCa } from "../serving-ca.ts";
import type { Told } from "./envoy-story.ts";
import { chainOf, intermediateOf, leafSeconds, shortLives, startAgent } from "./mesh.ts";
import { startVault, type Vault, writeToken } from "./vault.ts";

/** A mesh whose intermediates come from Vault's PKI engine. */
interface Stage {
  readonly folder: string;
  readonly vault: Vault;
  readonly tokenFile: string;
  readonly ca: ServingCa;
  readonly workload: Certified;
}

/** An authority under which five lives of a leaf pass, so that the cron asks within a minute. */
const lifetime = `${6 * leafSeconds}s`;
const patienceSeconds = 12 * leafSeconds;

export async function playVault(program: string, folder: string, tell: Told): Promise<void> {
  const vault = await startVault(program, folder);
  const key = { key_type: "ec", key_bits: 256 };
  await vault.write("root/generate/internal", { common_name: "Company Root", ttl: "720h", ...key });
  const tokenFile = await writeToken(join(folder, "token"), vault.token);
  const ca = await startServingCa(folder, {
    values: {
      ...shortLives,
      AUTHORITY_ROOT: "upstream",
      UPSTREAM_AUTHORITY: { kind: "vault", url: vault.url, ca: vault.ca },
      UPSTREAM_CREDENTIAL_FILE: tokenFile,
      AUTHORITY_LIFETIME: lifetime,
    },
  });
  const stage = { folder, vault, tokenFile, ca, workload: await startAgent(ca, folder, "a") };
  await tell("sign-intermediate founds the CA", () => founded(stage));
  await tell("a new root of the engine is published before it counts", () => newRoot(stage, key));
  await tell("a token that is refused changes nothing, and is told", () => refusedToken(stage));
  await stage.workload.agent.end();
  await ca.end();
  await vault.end();
}

/** The leaf verifies as strictly as OpenSSL can, under the bundle that everybody may fetch. */
async function verified({ folder, ca, workload }: Stage): Promise<X509Certificate> {
  const [leaf, intermediate, ...others] = await chainOf(workload);
  if (!leaf || !intermediate || others.length > 0) throw new Error("not one intermediate");
  const files = {
    "leaf.pem": `${leaf}`,
    "int.pem": `${intermediate}`,
    "ca.pem": await ca.bundle(),
  };
  for (const [name, pem] of Object.entries(files)) await writeFile(join(folder, name), pem);
  const [leafFile, untrusted, roots] = Object.keys(files).map((name) => join(folder, name)) as [
    string,
    string,
    string,
  ];
  const trust = ["-CAfile", roots, "-untrusted", untrusted];
  await runWell("openssl", ["verify", "-x509_strict", "-purpose", "sslserver", ...trust, leafFile]);
  return intermediate;
}

async function founded(stage: Stage): Promise<string> {
  const { subject, subjectAltName, issuer } = await verified(stage);
  if (issuer !== "CN=Company Root") throw new Error(`it is issued by ${issuer}`);
  if (subjectAltName !== "URI:spiffe://cluster.local") throw new Error(`it is ${subjectAltName}`);
  return subject.replaceAll("\n", ", ");
}

async function newRoot(stage: Stage, key: object): Promise<string> {
  const { vault, ca, workload } = stage;
  const rotated = await vault.write("root/rotate/internal", {
    common_name: "Next Root",
    ttl: "720h",
    ...key,
  });
  await vault.write("root/replace", { default: rotated.issuer_id });
  const { fingerprint256 } = new X509Certificate(rotated.certificate ?? "");
  let isPublished = false;
  await until(
    "an intermediate of the next root",
    async () => {
      const { issuer } = await intermediateOf(workload);
      if (issuer === "CN=Next Root") return true;
      const roots = (await ca.bundle()).split(/(?=-----BEGIN CERTIFICATE)/);
      isPublished ||= roots.some(
        (pem) => new X509Certificate(pem).fingerprint256 === fingerprint256,
      );
      return false;
    },
    2 * patienceSeconds,
  );
  if (!isPublished) throw new Error("the root was not in the bundle before it counted");
  await verified(stage);
  return "in the bundle first, then in the chains";
}

async function refusedToken({ ca, vault, tokenFile, workload }: Stage): Promise<string> {
  await writeToken(tokenFile, "hvs.expired");
  const isTold = (line: string): boolean =>
    line.includes('"rotation-fault"') && line.includes("answered with status 403");
  await until("a line in the log", () => ca.lines.some(isTold), patienceSeconds);
  await workload.agent.ready();
  const before = await intermediateOf(workload);
  await writeToken(tokenFile, vault.token);
  await until(
    "the next intermediate",
    async () => {
      return (await intermediateOf(workload)).fingerprint256 !== before.fingerprint256;
    },
    2 * patienceSeconds,
  );
  if (ca.lines.some((line) => line.includes(vault.token))) throw new Error("the log has the token");
  return "logged as rotation-fault, 403; the next token got the next intermediate";
}
