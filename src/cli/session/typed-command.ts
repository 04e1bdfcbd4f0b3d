import type { DeploymentChoice } from "./deployment.ts";

/** A command on the CA that a verb works on, as an operator types it. */
export function typedCommand(
  words: string,
  { config, env, remote, signer }: DeploymentChoice,
): string {
  const hasSigner = signer !== undefined && /^(?:authority|root|kek) /.test(words);
  return [
    `rampart ${words}`,
    ...(config === undefined ? [] : ["--config", quoted(config)]),
    ...(env === undefined ? [] : ["--env", quoted(env)]),
    ...(remote ? ["--remote"] : []),
    ...(hasSigner ? ["--signer", quoted(signer)] : []),
  ].join(" ");
}

/** A word for a POSIX shell. */
const quoted = (word: string): string =>
  /^[\w./:@%+=,-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
