import type { Command } from "commander";
import { runSigner } from "../../../node/signer/signer.ts";
import {
  parseSignerConfiguration,
  signerRestartKeys,
} from "../../../node/signer/signer-configuration.ts";
import { followingCommand, withoutCallers } from "./following.ts";

/** `rampart signer`: the certificates that a cluster requests for pods and services. */
export const signerCommand = (clock: () => Date): Command =>
  followingCommand("signer", clock, {
    description: "Answer a cluster's requests for certificates of pods and services.",
    parse: parseSignerConfiguration,
    restartKeys: signerRestartKeys,
    start: withoutCallers(runSigner),
  });
