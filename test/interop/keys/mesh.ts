import { X509Certificate } from "node:crypto";
import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { ClientError } from "../../../src/client/internal/client-error.ts";
import { obtain } from "../../e2e/mesh.ts";
import type { PeerCredentials } from "../../testkit/network/tls-peer.ts";
import { runWell } from "../../testkit/programs/child-process.ts";
import type { StagedCa } from "./platforms.ts";

/** A life of a leaf, four steps of the clock long. */
export const leafSeconds = 400;
export const stepSeconds = leafSeconds / 4;

const names = ["a", "b", "c"];

/** A workload's certificate, its roots, and when they came. */
interface Held extends PeerCredentials {
  readonly at: Date;
}

const certificatesIn = (pem: string): X509Certificate[] =>
  pem.split(/(?<=-----END CERTIFICATE-----\n)/).map((each) => new X509Certificate(each));

/** What the CA said to a workload, with the kind of the failure and the wait that it asks for. */
const sentenceOf = (error: Error): string =>
  error instanceof ClientError
    ? `${error.fault}, retry-after ${error.retryAfterSeconds}: ${error.message}`
    : error.message;

/** Workloads that renew in half a life, and after each step verify each other with OpenSSL. */
export class VerifyingMesh {
  readonly #folder: string;
  readonly #ca: StagedCa;
  readonly #held = new Map<string, Held>();
  /** Roots by fingerprints: when they were in a bundle first, and when they signed first. */
  readonly #published = new Map<string, Date>();
  readonly #signed = new Map<string, Date>();
  #steps = 0;
  verifications = 0;
  /** What the CA said to those that it refused in the last step. */
  refusals: readonly string[] = [];

  constructor(folder: string, ca: StagedCa) {
    this.#folder = folder;
    this.#ca = ca;
  }

  /** The fingerprint of the root that signs now, as the newest certificate shows. */
  signer = "";
  /** Those of the newest bundle. */
  roots: readonly string[] = [];
  /** The certificates that signed leaves. */
  readonly intermediates = new Set<string>();

  /** For how long a root was in bundles before it signed. */
  leadOf(root: string): number {
    const [published, signed] = [this.#published.get(root), this.#signed.get(root)];
    return published && signed ? (signed.getTime() - published.getTime()) / 1000 : Number.NaN;
  }

  /** Whether a workload still has a leaf below this root. */
  uses = (root: string): boolean =>
    [...this.#held.values()].some((held) => rootOf(held)?.fingerprint256 === root);

  /** Lets time pass. @returns Whether the cron ended well. @throws Error for a verification that fails */
  async step(): Promise<boolean> {
    const isWell = await this.#ca.step(stepSeconds);
    const refusals: string[] = [];
    for (const [i, name] of names.entries()) {
      if (i % 2 !== this.#steps % 2 && this.#held.has(name)) continue;
      await this.#renew(name).catch((error: Error) => refusals.push(sentenceOf(error)));
    }
    this.refusals = refusals;
    this.#steps++;
    await this.#verify();
    return isWell;
  }

  async #renew(name: string): Promise<void> {
    const at = this.#ca.now();
    const held: Held = { ...(await obtain(this.#ca, name)), at };
    this.#held.set(name, held);
    this.roots = certificatesIn(held.trustBundlePem).map(({ fingerprint256 }) => fingerprint256);
    for (const root of this.roots) if (!this.#published.has(root)) this.#published.set(root, at);
    this.signer = rootOf(held)?.fingerprint256 ?? "";
    if (!this.#signed.has(this.signer)) this.#signed.set(this.signer, at);
    this.intermediates.add(certificatesIn(held.chainPem).at(-1)?.fingerprint256 ?? "");
  }

  /** Each leaf with its own chain under each bundle that somebody holds, at this instant. */
  async #verify(): Promise<void> {
    const now = this.#ca.now();
    const isLive = ({ at }: Held) => now.getTime() - at.getTime() < 1000 * leafSeconds;
    for (const [name, held] of this.#held) if (!isLive(held)) this.#held.delete(name);
    const live = [...this.#held];
    const bundles = [...new Set(live.map(([, held]) => held.trustBundlePem))];
    const chains = Map.groupBy(live, ([, { chainPem }]) => afterLeaf(chainPem));
    await mkdir(this.#folder, { recursive: true });
    const write = async (name: string, text: string): Promise<string> => {
      const file = join(this.#folder, name);
      await writeFile(file, text);
      return file;
    };
    for (const [name, { chainPem }] of live) await write(`${name}.pem`, chainPem);
    for (const bundle of bundles) {
      const roots = ["-CAfile", await write("roots.pem", bundle)];
      for (const [chain, holders] of chains) {
        const leaves = holders.map(([name]) => join(this.#folder, `${name}.pem`));
        const untrusted = chain === "" ? [] : ["-untrusted", await write("chain.pem", chain)];
        const instant = ["-attime", `${Math.floor(now.getTime() / 1000)}`];
        const strict = ["-x509_strict", "-purpose", "sslserver"];
        await runWell("openssl", [
          "verify",
          ...strict,
          ...instant,
          ...roots,
          ...untrusted,
          ...leaves,
        ]);
        this.verifications += leaves.length;
      }
    }
  }
}

const afterLeaf = (chainPem: string): string =>
  chainPem
    .split(/(?<=-----END CERTIFICATE-----\n)/)
    .slice(1)
    .join("");

function rootOf({ chainPem, trustBundlePem }: PeerCredentials): X509Certificate | undefined {
  const last = certificatesIn(chainPem).at(-1);
  return certificatesIn(trustBundlePem).find(({ publicKey }) => last?.verify(publicKey));
}
