import { X509Certificate } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";
import { pause } from "../../../src/foundation/pause.ts";
import { parseCertificates } from "../../../src/program/files/pem-file.ts";
import { renewalRules } from "../../testkit/callers/renewal-rules.ts";
import { createWorkloadKey } from "../../testkit/callers/workload-key.ts";
import { type NativeClient, nativeClient } from "../../testkit/network/native-grpc.ts";
import { type Repetition, repeatedly } from "../../testkit/time/until.ts";
import { istiodName } from "../native-grpc/mesh.ts";
import type { Replica } from "./replica.ts";

interface RenewalOptions {
  readonly port: number;
  readonly replicas: readonly Replica[];
  readonly token: (account: string) => Promise<string>;
  readonly roots: string;
  readonly count: number;
}

interface RenewalFigures {
  readonly renewals: number;
  readonly authorities: number;
  /**
   * A renewal that failed although the client has retried as pilot-agent does, a certificate that ended before the next,
   * or one that the bundle of a replica does not verify.
   */
  readonly faults: readonly string[];
}

/** Waits before the second to the fifth attempt, as pilot-agent has them (`pkg/security/retry.go`). */
const retryMilliseconds = [100, 200, 400, 800];

const readMilliseconds = 500;

/** The workloads start in this time. */
const startMilliseconds = 8000;

/**
 * Workloads that renew as pilot-agent does: at half of the lifetime, with a fresh key, five attempts, and a new
 * connection after a failure. As ztunnel, they connect anew when the file of
 * roots changes. Every other one connects anew for each renewal, so that all replicas get calls
 * whatever happened to their connections.
 */
export class Renewals {
  readonly #options: RenewalOptions;
  readonly #ending = new AbortController();
  readonly #authorities = new Set<string>();
  readonly #faults: string[] = [];
  readonly #running: Promise<unknown>;
  /** The file of roots, which `rampart distribute` keeps current for all workloads of a machine. */
  #roots: string;
  readonly #reading: Repetition;
  #renewals = 0;

  constructor(options: RenewalOptions) {
    this.#options = options;
    this.#roots = options.roots;
    this.#reading = repeatedly(() => this.#readRoots(), readMilliseconds);
    this.#running = Promise.all(
      Array.from({ length: options.count }, (_, i) => this.#live(i, i % 2 === 0)),
    );
  }

  figures(): RenewalFigures {
    const { size: authorities } = this.#authorities;
    return { renewals: this.#renewals, authorities, faults: this.#faults };
  }

  async stop(): Promise<void> {
    this.#ending.abort();
    await Promise.all([this.#running, this.#reading.end()]);
  }

  async #live(number: number, keepsConnection: boolean): Promise<void> {
    const { signal } = this.#ending;
    let roots = this.#roots;
    let client: NativeClient | undefined;
    let leaf: X509Certificate | undefined;
    // They would otherwise renew all at once, and then nobody for eight seconds.
    await pause(startMilliseconds * Math.random(), signal);
    while (!signal.aborted) {
      if (roots !== this.#roots) {
        client?.close();
        client = undefined;
      }
      roots = this.#roots;
      client ??= nativeClient(this.#options.port, istiodName, { roots });
      const chain = await this.#renew(client, number);
      if (!keepsConnection || !chain) {
        client.close();
        client = undefined;
      }
      if (leaf && leaf.validToDate <= new Date()) this.#faults.push("a certificate has ended");
      if (!chain) {
        await pause(1000, signal);
        continue;
      }
      leaf = new X509Certificate(chain[0] ?? "");
      const validity = { notBefore: leaf.validFromDate, notAfter: leaf.validToDate };
      const wait = renewalRules["pilot-agent"](validity, new Date(), Math.random());
      await Promise.all([this.#verify(chain), pause(1000 * Math.max(0, wait), signal)]);
    }
    client?.close();
  }

  async #readRoots(): Promise<void> {
    for (const { bundle } of this.#options.replicas) {
      const published = await bundle();
      if (published === undefined) continue;
      this.#roots = published;
      return;
    }
  }

  /** @returns The chain; `undefined` when every attempt has failed. */
  async #renew(client: NativeClient, number: number): Promise<readonly string[] | undefined> {
    const account = `shop:web-${number}`;
    const { csrPem: csr } = await createWorkloadKey("spiffe://cluster.local/ns/any/sa/any");
    const headers = { authorization: `Bearer ${await this.#options.token(account)}` };
    let fault = "";
    for (const wait of [0, ...retryMilliseconds]) {
      await sleep(wait * (0.9 + 0.2 * Math.random()));
      const outcome = await client.createCertificate({ csr }, headers);
      if ("certChain" in outcome) {
        this.#renewals++;
        return outcome.certChain;
      }
      fault = `${outcome.code} ${outcome.message}`;
    }
    this.#faults.push(fault);
    return undefined;
  }

  /** Every replica that publishes a bundle now must know the root of the certificate. */
  async #verify([pem = "", ...rest]: readonly string[]): Promise<void> {
    const leaf = new X509Certificate(pem);
    const signed = (bundle: string): X509Certificate | undefined =>
      parseCertificates(bundle).find((root) => leaf.verify(root.publicKey));
    const authority = signed(rest.at(-1) ?? "")?.fingerprint256.slice(0, 8) ?? "unknown";
    this.#authorities.add(authority);
    for (const { name, bundle } of this.#options.replicas) {
      const published = await bundle();
      if (published === undefined) continue;
      if (!signed(published)) this.#faults.push(`${authority} is not in the bundle of ${name}`);
    }
  }
}
