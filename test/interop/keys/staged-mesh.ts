import { X509Certificate } from "node:crypto";
import type { Mint } from "../../../src/ca/mint.ts";
import { ConfiguredKeks } from "../../../src/config/keks.ts";
import { createServiceRoot, wrapKek } from "../../../src/custody/key-service/operators-keys.ts";
import { Pem } from "../../../src/pki/encoding/pem.ts";
import { issuers } from "../../e2e/mesh.ts";
import { startCa } from "../../testkit/ca/running-ca.ts";
import { clusterLocal } from "../../testkit/ca/sealed-authorities.ts";
import { randomKek } from "../../testkit/configuration.ts";
import type { TestCa } from "../../testkit/pki/plugged-in.ts";
import { leafSeconds, stepSeconds, VerifyingMesh } from "./mesh.ts";
import type { StagedCa } from "./platforms.ts";
import { custodyOf } from "./scenes.ts";
import type { RealService } from "./services.ts";
import type { Upstream } from "./upstream.ts";

export const leaseSeconds = 6 * stepSeconds;
const year = 366 * 86_400;

/** A scene that is not over by then hangs: the longest one, a rotation below a new root, takes twelve. */
const longestScene = 30;

/** A CA with a service's keys, whose mesh verifies after each step. */
export class Story {
  readonly service: RealService;
  readonly ca: StagedCa;
  readonly mesh: VerifyingMesh;
  readonly upstream: Upstream;
  readonly company: TestCa;
  #values: Readonly<Record<string, unknown>>;

  constructor(
    service: RealService,
    ca: StagedCa,
    folder: string,
    others: Upstream,
    company: TestCa,
  ) {
    this.service = service;
    this.ca = ca;
    this.mesh = new VerifyingMesh(folder, ca);
    this.upstream = others;
    this.company = company;
    this.#values = {
      TRUST_DOMAIN: "cluster.local",
      ISSUERS: issuers,
      INCEPTION_DATE: ca.now().toISOString().slice(0, 10),
      PROPAGATION_INTERVAL: "0s",
      MAX_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
      DEFAULT_WORKLOAD_CERT_TTL: `${leafSeconds}s`,
      AUTHORITY_LIFETIME: `${6 * leafSeconds}s`,
      KEK_LEASE: `${leaseSeconds}s`,
      KEK: randomKek("k0"),
      ...service.credentials,
    };
  }

  get kek(): string {
    return `${this.#values["KEK"]}`;
  }

  async deploy(values: object = {}): Promise<void> {
    const all = Object.entries({ ...this.#values, ...values });
    this.#values = Object.fromEntries(all.filter(([, value]) => value !== undefined));
    await this.ca.deploy(this.#values);
  }

  /** @throws Error unless every workload that asked got its certificate */
  async step(): Promise<boolean> {
    const isWell = await this.mesh.step();
    const [refusal] = this.mesh.refusals;
    if (refusal !== undefined) throw new Error(`a workload was refused: ${refusal}`);
    return isWell;
  }

  async stepUntil(what: string, isSo: () => boolean, step = () => this.step()): Promise<void> {
    for (let i = 0; i < longestScene; i++) {
      await step();
      if (isSo()) return;
    }
    throw new Error(`${what}: not in ${longestScene * stepSeconds} s of the story`);
  }

  async moveTo(isIt: (root: string) => boolean, values: object): Promise<string> {
    await this.deploy(values);
    return this.arriveAt(isIt);
  }

  /** Waits until the mesh is below another root alone. @returns What was seen of it. */
  async arriveAt(isIt: (root: string) => boolean): Promise<string> {
    const before = this.mesh.signer;
    await this.stepUntil("the other root signs", () => this.mesh.signer !== before);
    const { signer } = this.mesh;
    if (!isIt(signer)) throw new Error("another root signs");
    const lead = this.mesh.leadOf(signer);
    // The bundle is seen a step after an operator's verb.
    if (lead < leafSeconds - stepSeconds) throw new Error(`its root was published for ${lead} s`);
    await this.stepUntil("nobody has a leaf of the last root", () => !this.mesh.uses(before));
    return `its root was in every bundle ${lead} s before it signed`;
  }

  /** A root of a key, and the configuration that has it sign. */
  async rootOf(uri: string) {
    const { keyServices } = custodyOf(this.service, this.ca.now);
    const der = await createServiceRoot(keyServices(uri), clusterLocal, year, this.ca.now());
    const root = Pem.format("CERTIFICATE", der);
    return {
      fingerprint: new X509Certificate(root).fingerprint256,
      values: {
        AUTHORITY_ROOT: "upstream",
        UPSTREAM_AUTHORITY: { kind: "key-service", keys: [uri], root },
      },
    };
  }

  /** Does with the records what a verb does. */
  async operate<T>(work: (mint: Mint) => Promise<T>): Promise<T> {
    const store = (await this.ca.store()) as never;
    const clock = this.ca.now;
    const keyCustody = custodyOf(this.service, clock);
    const { ISSUERS: _, ...values } = this.#values;
    const { mint, certificateAuthority } = await startCa(values, { store, clock, keyCustody });
    await certificateAuthority.issuance.authorities.at(clock());
    return work(mint);
  }

  async moveKek(next: string): Promise<void> {
    const old = this.kek;
    for (const KEK of [`${old},${next}`, `${next},${old}`, next]) {
      await this.deploy({ KEK });
      await this.step();
    }
  }

  async wrapped(id: string): Promise<string> {
    const { keyServices } = custodyOf(this.service, this.ca.now);
    const octets = crypto.getRandomValues(new Uint8Array(32));
    const { wrapping } = this.service;
    return ConfiguredKeks.format(
      await wrapKek({ id, octets }, wrapping, "cluster.local", keyServices),
    );
  }

  get signatures(): number {
    return this.service.front.asked.filter((each) => this.service.signatures.test(each)).length;
  }

  async readiness(): Promise<string> {
    const response = await this.ca.fetch("/readyz");
    return `${response.status} ${await response.text()}`;
  }
}
