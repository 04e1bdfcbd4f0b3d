import { cp, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { generateX25519Identity, identityToRecipient } from "age-encryption";
import { openDeployment } from "../../src/cli/session/deployment.ts";
import { currentView } from "../../src/cli/session/stores.ts";
import { authorityCommand } from "../../src/cli/verbs/authority/authority.ts";
import type { OperatorError } from "../../src/foundation/errors.ts";
import type { OpenAuthority } from "../../src/pki/authority/signing-authority.ts";
import { Pem } from "../../src/pki/encoding/pem.ts";
import { Leaf } from "../../src/pki/x509/leaf/certificate-signer.ts";
import { SubjectPublicKey } from "../../src/pki/x509/subject-public-key.ts";
import { addSeconds } from "../../src/pki/x509/validity.ts";
import { randomKek } from "../testkit/configuration.ts";
import { proved, workload } from "../testkit/pki/certificates.ts";
import { generateSigner } from "../testkit/pki/csr.ts";
import { MemoryTerminal } from "../testkit/programs/memory-terminal.ts";
import { operatorRefusalOf } from "../testkit/refusal.ts";
import { lastingFolder, temporaryFolder } from "../testkit/temporary-folder.ts";

/** A `rampart.toml` for verbs on a store of files: one issuer, and these lines. */
export const storeToml = (store: string, ...lines: readonly string[]): string =>
  [
    ...lines,
    `STORE_DIRECTORY = ${JSON.stringify(store)}`,
    '[[ISSUERS]]\nissuer = "https://a.test"',
  ].join("\n");

/** An authority, as `authority list --json` prints it. */
interface ListedAuthority {
  readonly id: string;
  readonly phase: string;
  readonly key: string;
  readonly isTainted: boolean;
  readonly signs: boolean;
  readonly schedule: Record<"publishedFrom" | "signsFrom" | "signsUntil" | "retiresAt", string>;
}

const originals = new Map<string, Promise<Operator>>();

/** Somebody who types verbs on a CA with a store of files, at a pipe, and whose clock a test sets. */
export class Operator {
  readonly terminal: MemoryTerminal;
  readonly config: string;
  now: Date;
  readonly #folder: string;
  /** Lines of every configuration. */
  readonly #usual: readonly string[];
  #lines: readonly string[] = [];
  #store = "store";

  private constructor(folder: string, now: Date, usual: readonly string[]) {
    this.#folder = folder;
    this.#usual = usual;
    this.config = this.file("rampart.toml");
    this.now = now;
    this.terminal = new MemoryTerminal({
      environment: { KEK: randomKek() },
      clock: () => this.now,
    });
  }

  /** @param usual Lines of every configuration that this operator writes. */
  static async create(now: Date, ...usual: readonly string[]): Promise<Operator> {
    const operator = new Operator(await temporaryFolder(), now, usual);
    await operator.configure();
    return operator;
  }

  /** One whose CA has its first authority. Those of one instant and the same lines have copies of one store. */
  static async founded(now: Date, ...usual: readonly string[]): Promise<Operator> {
    const key = JSON.stringify([now, usual]);
    const known = originals.get(key) ?? Operator.#found(now, usual);
    originals.set(key, known);
    const [original, operator] = await Promise.all([known, Operator.create(now, ...usual)]);
    operator.terminal.setVariable("KEK", original.terminal.environment["KEK"]);
    await cp(original.file("store"), operator.file("store"), { recursive: true });
    return operator;
  }

  static async #found(now: Date, usual: readonly string[]): Promise<Operator> {
    const operator = new Operator(await lastingFolder(), now, usual);
    await operator.configure();
    await operator.authority("init", "--yes");
    return operator;
  }

  file(name: string): string {
    return join(this.#folder, name);
  }

  /** Writes the configuration anew: the usual lines, and these. */
  async configure(...lines: readonly string[]): Promise<void> {
    this.#lines = lines;
    await writeFile(this.config, storeToml(this.file(this.#store), ...this.#usual, ...this.#lines));
  }

  /** Has the same configuration name another folder for the store. */
  async moveTo(store: string): Promise<void> {
    this.#store = store;
    await this.configure(...this.#lines);
  }

  /** Types a verb. @returns What it prints. @throws what it throws. */
  run(
    noun: Parameters<MemoryTerminal["run"]>[0],
    words: readonly string[],
    terminal: MemoryTerminal = this.terminal,
  ): Promise<string> {
    return terminal.run(noun, [...words, "-c", this.config]);
  }

  authority(...words: readonly string[]): Promise<string> {
    return this.run(authorityCommand, words);
  }

  /** Why `rampart authority` does not do it. */
  refusal(...words: readonly string[]): Promise<OperatorError> {
    return operatorRefusalOf(() => this.authority(...words));
  }

  async authorities(): Promise<readonly ListedAuthority[]> {
    return JSON.parse(await this.authority("list", "--json"));
  }

  /** The deployment that the configuration names. */
  deployment() {
    return openDeployment({ config: this.config }, this.terminal.environment, this.now);
  }

  /** The authorities that are in the bundle, open. */
  async issuers(): Promise<readonly OpenAuthority[]> {
    return (await currentView(await this.deployment(), this.now))?.crlIssuers ?? [];
  }

  /** Writes a leaf of `ns/shop/sa/cart` that ends so many seconds from now. @returns Its serial number. */
  async leaf(file: string, signer: OpenAuthority | undefined, seconds = 86_400): Promise<string> {
    if (!signer) throw new Error("no authority");
    const { der, serialNumber } = await Leaf.issue(signer, {
      spiffeId: workload("shop", "cart"),
      publicKey: SubjectPublicKey.parse(generateSigner("EC-P256").spki),
      validity: {
        notBefore: addSeconds(this.now, -2 * 86_400),
        notAfter: addSeconds(this.now, seconds),
      },
      proof: proved,
    });
    await writeFile(this.file(file), Pem.format("CERTIFICATE", der));
    return serialNumber;
  }

  /** Writes the identity of a backup to the file `identity`. @returns The options that name its recipient. */
  async recipient(): Promise<readonly string[]> {
    const identity = await generateX25519Identity();
    await writeFile(this.file("identity"), identity);
    return ["-r", await identityToRecipient(identity)];
  }

  /** Another terminal of this operator, with the same environment and, unless told otherwise, the same clock. */
  terminalWith(options: ConstructorParameters<typeof MemoryTerminal>[0]): MemoryTerminal {
    const environment = this.terminal.environment as Record<string, string>;
    return new MemoryTerminal({ environment, clock: () => this.now, ...options });
  }
}
