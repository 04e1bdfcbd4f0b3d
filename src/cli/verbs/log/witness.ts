import { Command, Option } from "commander";
import * as z from "zod/mini";
import { addressText } from "../../../foundation/addresses.ts";
import { OperatorError } from "../../../foundation/errors.ts";
import { createOperationLog, writeToConsole } from "../../../foundation/events.ts";
import { type ListenAddress, listenAddress } from "../../../node/files/places.ts";
import { startWitness } from "../../../node/log/witness-server.ts";
import { watchSignals } from "../../../program/signals.ts";
import { isOrigin } from "../../../tlog/note/checkpoint.ts";
import { formatVerifierKey, parseVerifierKey } from "../../../tlog/note/verifier-key.ts";
import { typedAs } from "../../terminal/command-line.ts";
import { orOperatorError } from "../../terminal/failures.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { judgingLog, orUsageError } from "./log-source.ts";

interface WitnessOptions {
  readonly dir: string;
  readonly name: string;
  readonly key: readonly string[];
  readonly listen: ListenAddress;
}

/** `rampart log witness`: a second party that cosigns a log, so that nobody is shown another history. */
export function witnessCommand(terminal: Terminal): Command {
  return new Command("witness")
    .description("cosign the checkpoints of logs: a second party sees that nothing is rewritten")
    .requiredOption("--dir <folder>", "where its key and its memory rest")
    .requiredOption("--name <name>", "the name of its key, such as witness.example.com", keyName)
    .requiredOption("--key <vkey...>", "the verifier keys of the logs")
    .addOption(
      new Option("--listen <address>", "where it listens, over HTTP")
        .argParser(listen)
        .default(listen(":8099"), ":8099"),
    )
    .action((options: WitnessOptions) => judgingLog(() => runWitness(options, terminal)));
}

const keyName = typedAs(
  z.string().check(z.refine(isOrigin)),
  "must be a name without white space and plus signs",
);

const listen = typedAs(listenAddress, "must be an address such as :8099 or 127.0.0.1:8099");

async function runWitness(options: WitnessOptions, { clock }: Terminal): Promise<void> {
  using signals = watchSignals();
  const log = createOperationLog(clock, writeToConsole);
  const logs = orUsageError("--key", () => options.key.map(parseVerifierKey));
  if (logs.some(({ use }) => use !== "note")) throw new OperatorError("--key: a witness's key");
  const { dir: directory, name, listen } = options;
  const witness = await orOperatorError(() =>
    startWitness({ directory, name, logs, listen, log, clock }),
  );
  const detail = `add-checkpoint on ${addressText(witness.address)}`;
  const verifierKey = formatVerifierKey(witness.key);
  log.operation({ event: "listening", level: "info", detail, verifierKey });
  await signals.signal;
  await witness.close();
}
