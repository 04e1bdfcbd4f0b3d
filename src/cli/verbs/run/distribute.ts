import type { Command } from "commander";
import {
  distribute,
  distributeKeys,
  distributeRestartKeys,
  parseDistributeConfiguration,
} from "../../../node/distribute/distribute.ts";
import type { Terminal } from "../../terminal/terminal.ts";
import { followingCommand } from "./following.ts";

/** `rampart distribute`: the trust bundle in every namespace of a cluster. */
export const distributeCommand = (terminal: Terminal): Command =>
  followingCommand("distribute", terminal, {
    description: "Keep the trust bundle of a CA in every namespace of a cluster.",
    keys: distributeKeys,
    parse: parseDistributeConfiguration,
    restartKeys: distributeRestartKeys,
    start: distribute,
  });
