import { OperatorError } from "../../../foundation/errors.ts";
import { FetchError, ResponseBody, toFetchError } from "../../../foundation/fetch.ts";
import { maximumPemOctets, PemFile } from "../../../program/files/pem-file.ts";
import { SmallFile } from "../../../program/files/small-file.ts";
import { NodeFetch } from "../../../program/http/http-client.ts";
import { exitCodes } from "../../terminal/command-line.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { printable } from "../../terminal/text.ts";
import { type Inspected, inspect } from "./inspection.ts";

/** The options of `certificate inspect`. */
export interface InspectOptions {
  readonly ca?: string;
  readonly json?: true;
}

/**
 * Shows what is in a file, at a URL or in the standard input, and what is wrong with it. For any fault the exit code is
 * `attention`.
 * @throws OperatorError if it cannot be read or parsed.
 */
export async function inspectSource(
  terminal: Terminal,
  source: string,
  options: InspectOptions,
): Promise<void> {
  const octets = await read(source, options);
  const inspected = await inspect(octets, terminal.clock()).catch((error: unknown) => {
    if (!(error instanceof OperatorError)) throw error;
    throw new OperatorError(`${source}: ${error.message}`, { cause: error });
  });
  terminal.answer(inspected, options, () => inspected.map(toWords).join("\n\n"));
  if (inspected.some(({ faults }) => faults.length > 0)) terminal.exitWith(exitCodes.attention);
}

async function read(source: string, { ca }: InspectOptions): Promise<Uint8Array> {
  const file = source === "-" ? "/dev/stdin" : source;
  if (!/^https?:/.test(source)) {
    return await SmallFile.readOctets(file, maximumPemOctets, { mayBePipe: true });
  }
  const fetch = NodeFetch.trusting(await PemFile.readRoots(ca));
  const response = await fetch(source, { signal: AbortSignal.timeout(30_000) })
    .catch((error: unknown) => {
      throw toFetchError(error, "does not answer");
    })
    .catch(fetchFailed(source));
  if (response.status !== 200) throw new OperatorError(`${source} answered ${response.status}`);
  return await ResponseBody.readOctets(response, maximumPemOctets).catch(fetchFailed(source));
}

const fetchFailed =
  (source: string) =>
  (error: unknown): never => {
    if (error instanceof FetchError) throw new OperatorError(`${source} ${error.message}`);
    throw error;
  };

/**
 * Formats a certificate: its title, its fields and its faults. Control characters in names become `?`, because somebody
 * else wrote the names.
 */
function toWords({ kind, fields, faults }: Inspected, index: number): string {
  const lines = Object.entries(fields).map(
    ([name, value]) => `  ${name.padEnd(11)}${printable(value)}`,
  );
  const wrong = faults.map((fault) => `  wrong      ${printable(fault)}`);
  return [`${index + 1}. ${kind}`, ...lines, ...wrong].join("\n");
}
