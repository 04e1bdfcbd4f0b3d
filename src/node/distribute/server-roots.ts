import type { X509Certificate } from "node:crypto";
import type { FileHandle } from "node:fs/promises";
import { join } from "node:path";
import { OperationLog } from "../../foundation/events.ts";
import { MeshRoots } from "../../program/bundle/mesh-roots.ts";
import { LatestWrites } from "../../program/coalesced-work.ts";
import { AtomicFile } from "../../program/files/atomic-file.ts";
import { PemFile, parseCertificates } from "../../program/files/pem-file.ts";
import { unlessMissing } from "../../program/files/small-file.ts";
import type { UpstreamPlace } from "../files/places.ts";
import { StoreOwner } from "../files/store-owner.ts";

/**
 * The roots by which a program verifies the CA: those in its file, where the current roots of the mesh replace former
 * ones, so that nobody has to update the file at a rotation.
 */
export class ServerRoots {
  readonly #path: string | undefined;
  readonly #mesh: MeshRoots;
  readonly #cache: RootCache | undefined;
  #file: string | undefined;
  #pem: string | undefined;
  #isRecalled: boolean;

  /** @param former Its learned roots are taken over: the same CA may have another address now. */
  constructor(
    { upstream, upstreamRootsFile, cacheFolder }: UpstreamPlace,
    log: OperationLog,
    former?: ServerRoots,
  ) {
    this.#path = upstreamRootsFile;
    this.#mesh = new MeshRoots(upstream, former ? former.#mesh : undefined);
    this.#isRecalled = former !== undefined;
    if (upstreamRootsFile !== undefined && cacheFolder !== undefined)
      this.#cache = new RootCache(cacheFolder, log);
  }

  /** PEM; `undefined` for the roots of the system, and before {@link read}. */
  get pem(): string | undefined {
    return this.#pem;
  }

  /** Reads the file anew. @returns {@link pem}. @throws OperatorError when it cannot be read. */
  async read(): Promise<string | undefined> {
    this.#file = await PemFile.readRoots(this.#path);
    if (!this.#isRecalled) await this.#recall();
    return this.#choose();
  }

  learn(roots: readonly X509Certificate[]): void {
    this.#mesh.update(roots);
    this.#choose();
    this.#cache?.write(this.#mesh.record);
  }

  /** Resolves once the learned roots are stored in the cache. */
  async kept(): Promise<void> {
    await this.#cache?.written;
  }

  async #recall(): Promise<void> {
    this.#isRecalled = true;
    const roots = this.#mesh.recall((await this.#cache?.read()) ?? "");
    if (roots.length > 0) this.#mesh.update(roots, "recalled");
  }

  #choose(): string | undefined {
    this.#pem = this.#file && this.#mesh.forConnection(parseCertificates(this.#file)).join("");
    return this.#pem;
  }
}

/** Stores the record of {@link MeshRoots} in a folder, for the next run. No method rejects. */
class RootCache {
  readonly #folder: string;
  readonly #file: string;
  readonly #log: OperationLog;
  #latest = "";
  readonly #writes = new LatestWrites<string>((_, record) => this.#replace(record));

  constructor(folder: string, log: OperationLog) {
    this.#folder = folder;
    this.#file = join(folder, "roots.pem");
    this.#log = log;
  }

  async read(): Promise<string | undefined> {
    try {
      return await unlessMissing(PemFile.read(this.#file));
    } catch (error) {
      OperationLog.logFault(this.#log, "cache-unread", error);
      return undefined;
    }
  }

  write(record: string): void {
    if (record === this.#latest) return;
    this.#latest = record;
    void this.#writes.write(this.#file, record);
  }

  get written(): Promise<void> | undefined {
    return this.#writes.underWay;
  }

  async #replace(record: string): Promise<void> {
    const folder = this.#folder;
    const give = (file: FileHandle) => StoreOwner.leaveFile(file, folder);
    try {
      await StoreOwner.makeFolder(folder, await StoreOwner.of(folder));
      await AtomicFile.replace(this.#file, record, { mode: 0o600, give });
    } catch (error) {
      OperationLog.logFault(this.#log, "cache-unwritten", error);
    }
  }
}
