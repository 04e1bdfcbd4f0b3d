import type { Command } from "commander";
import { runSigner } from "../../../node/signer/signer.ts";
import {
  parseSignerConfiguration,
  signerKeys,
  signerRestartKeys,
} from "../../../node/signer/signer-configuration.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { followingCommand } from "./following.ts";

/** `rampart signer`: the certificates that a cluster requests for pods and services. */
export const signerCommand = (terminal: Terminal): Command =>
  followingCommand("signer", terminal, {
    description: "Answer a cluster's requests for certificates of pods and services.",
    keys: signerKeys,
    parse: parseSignerConfiguration,
    restartKeys: signerRestartKeys,
    start: runSigner,
  });
