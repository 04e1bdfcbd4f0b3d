import { type Command, Option } from "commander";

/** The options that choose a store, for every verb that reads one. */
export function addDeploymentOptions(command: Command): Command {
  return addPlaceOptions(command).option(
    "--signer <name>",
    "the authorities of a named signer, instead of those without a name",
  );
}

/** The options that choose a CA with all its stores. */
export function addPlaceOptions(command: Command): Command {
  return command
    .option(
      "-c, --config <file>",
      "the CA's configuration (default: wrangler.toml or rampart.toml, whichever is there)",
    )
    .option("-e, --env <name>", "an environment of wrangler.toml")
    .addOption(
      new Option(
        "--remote",
        "the deployed namespace, through wrangler's login; KEK comes from the environment",
      ).conflicts("local"),
    )
    .addOption(new Option("--local", "the state on this machine (the default)"));
}

/** {@link addDeploymentOptions} for a verb that writes. */
export function addChangeOptions(command: Command): Command {
  return addDryRun(addDeploymentOptions(command));
}

/** {@link addPlaceOptions} for a verb that writes. */
export function addPlaceChangeOptions(command: Command): Command {
  return addDryRun(addPlaceOptions(command));
}

const addDryRun = (command: Command): Command =>
  command.option("--dry-run", "show what would be done, and write nothing");
