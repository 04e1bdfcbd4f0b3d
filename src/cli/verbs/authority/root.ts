import type { Command } from "commander";
import { createServiceRoot } from "../../../custody/key-service/service-root.ts";
import { ConfigurationError, messageOf, OperatorError } from "../../../foundation/errors.ts";
import { durationSeconds } from "../../../foundation/text.ts";
import { fingerprintOf } from "../../../pki/encoding/bytes.ts";
import { toPem } from "../../../pki/encoding/pem.ts";
import { openKeyServices } from "../../session/key-services.ts";
import type { SessionOptions } from "../../session/session.ts";
import { usageError } from "../../terminal/command-line.ts";
import type { Terminal } from "../../terminal/terminal.ts";

interface RootOptions extends SessionOptions {
  readonly lifetime: string;
}

/** `rampart authority root`: the certificate of a root whose key a service holds. */
export function addRoot(command: Command, terminal: Terminal): void {
  command
    .argument("<key>", "the URI of a key that signs: EC P-256, EC P-384 or RSA")
    .option("--lifetime <duration>", "how long the root shall live", "87600h")
    .description("print the certificate of a root whose key is in a key service, which signs it")
    .action((key: string, options: RootOptions) => print(terminal, key, options));
}

async function print(
  terminal: Terminal,
  uri: string,
  { lifetime, ...options }: RootOptions,
): Promise<void> {
  const seconds = durationSeconds.safeParse(lifetime);
  if (!seconds.success || seconds.data < 86_400 || seconds.data > 40 * 366 * 86_400)
    throw usageError("--lifetime must be a duration from 24h to 40 years, such as 87600h");
  const { configuration, keyServices } = await openKeyServices(terminal, options);
  try {
    const { trustDomain } = configuration;
    const root = await createServiceRoot(
      keyServices(uri),
      trustDomain,
      seconds.data,
      terminal.clock(),
    );
    terminal.print(toPem("CERTIFICATE", root).trimEnd());
    terminal.noticeNext([
      [
        `UPSTREAM_AUTHORITY = { kind = "key-service", keys = ["${uri}"], root = "…" }`,
        `and AUTHORITY_ROOT = "upstream" have this root (SHA-256 ${fingerprintOf(root).slice(0, 16)}…) sign the intermediates`,
      ],
    ]);
  } catch (error) {
    if (error instanceof ConfigurationError) throw new OperatorError(error.message);
    throw new OperatorError(`${uri} ${messageOf(error)}`);
  }
}
