import { type ChildProcess, spawn } from "node:child_process";
import { messageOf } from "../../foundation/errors.ts";
import type { OperationLog } from "../../foundation/event-log.ts";
import type { OutputSettings } from "../configuration/output-settings.ts";
import type { RefreshingIdentity } from "../identity/refreshing-identity.ts";
import { privateKeyPem } from "../identity/subject-key.ts";
import { type CertificatePurpose, chainPem } from "../identity/x509-svid.ts";
import type { Revocation } from "../trust/revocation.ts";
import type { TrustRoots } from "../trust/trust-roots.ts";
import { writeOutput } from "./output-folder.ts";

const retryMilliseconds = 5_000;

/** The dependencies of a {@link CertificateOutput}. */
export interface CertificateOutputOptions {
  readonly settings: OutputSettings;
  readonly identity: RefreshingIdentity;
  readonly trust: TrustRoots;
  readonly revocation: Pick<Revocation, "isPublished" | "pem" | "changes">;
  readonly isPkcs8: boolean;
  readonly purpose: CertificatePurpose;
  readonly log: OperationLog;
}

/**
 * Keeps `key.pem`, `cert-chain.pem`, `root-cert.pem` and, where the CA publishes revocation lists, `ca-crl.pem` in a
 * folder up to date, for programs that read files. It repeats a failed write until one succeeds.
 */
export class CertificateOutput {
  readonly #options: CertificateOutputOptions;
  readonly #unsubscribe: readonly (() => void)[];
  #isDirty = false;
  #writing: Promise<void> | undefined;
  #retry: NodeJS.Timeout | undefined;
  #command: ChildProcess | undefined;

  constructor(options: CertificateOutputOptions) {
    this.#options = options;
    const { identity, trust, revocation } = options;
    this.#unsubscribe = [identity.changes, trust.changes, revocation.changes].map((changes) =>
      changes.add(() => this.#write()),
    );
    this.#write();
  }

  async close(): Promise<void> {
    for (const unsubscribe of this.#unsubscribe) unsubscribe();
    clearTimeout(this.#retry);
    this.#command?.kill();
    await this.#writing;
  }

  /** Starts a write, or has the current one followed by another. */
  #write(): void {
    this.#isDirty = true;
    this.#writing ??= this.#writeAll().finally(() => {
      this.#writing = undefined;
      if (this.#isDirty) this.#write();
    });
  }

  async #writeAll(): Promise<void> {
    const { settings, log } = this.#options;
    while (this.#isDirty) {
      this.#isDirty = false;
      try {
        const files = this.#files();
        if (!files || !(await writeOutput(settings, files))) continue;
        log.operation({ event: "files-written", level: "info", folder: settings.folder });
        await this.#runCommand();
      } catch (error) {
        log.operation({ event: "files-unwritten", level: "error", detail: messageOf(error) });
        clearTimeout(this.#retry);
        this.#retry = setTimeout(() => this.#write(), retryMilliseconds);
      }
    }
  }

  #files(): Readonly<Record<string, string>> | undefined {
    const { identity, trust, revocation, isPkcs8, purpose } = this.#options;
    const { issuance } = identity;
    return (
      issuance && {
        "key.pem": privateKeyPem(issuance.svid.privateKey, isPkcs8),
        // As in Istio, a workload's chain includes the roots: some programs look for them there.
        "cert-chain.pem":
          purpose === "serving" ? chainPem(issuance.svid) : joinPem(issuance.elements),
        "root-cert.pem": trust.pem,
        // As in Istio, an empty file revokes nothing.
        ...(revocation.isPublished && purpose === "identity" && { "ca-crl.pem": revocation.pem }),
      }
    );
  }

  async #runCommand(): Promise<void> {
    const { settings, log } = this.#options;
    if (settings.onChange === undefined) return;
    const command = spawn("sh", ["-c", settings.onChange], {
      stdio: ["ignore", "inherit", "inherit"],
    });
    this.#command = command;
    const result = await new Promise<string>((resolve) => {
      command.on("error", (error) => resolve(messageOf(error)));
      command.on("exit", (code, signal) =>
        resolve(code === 0 ? "" : `ended with ${code ?? signal}`),
      );
    });
    if (result) log.operation({ event: "on-change-failed", level: "error", detail: result });
    else log.operation({ event: "on-change-run", level: "info" });
  }
}

/** Joins PEM texts, and adds a newline between two only where one is missing. */
export function joinPem(elements: readonly string[]): string {
  return elements.reduce((joined, element) => {
    const separator = joined === "" || joined.endsWith("\n") ? "" : "\n";
    return `${joined}${separator}${element}`;
  }, "");
}
