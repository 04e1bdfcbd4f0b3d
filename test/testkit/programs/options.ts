import { messageOf } from "../../../src/foundation/errors.ts";

/**
 * What the words after a program for developers ask for. `--help`, and words that it does not take, end it with the
 * usage: with exit code 0, and with 2.
 *
 * @param parse Throws for words that it does not take.
 */
export function optionsOf<Options>(
  usage: string,
  parse: (words: string[]) => Options,
  words: string[] = process.argv.slice(2),
): Options {
  if (words.some((word) => /^(?:-h|--help)$/.test(word))) {
    console.log(usage);
    process.exit(0);
  }
  try {
    return parse(words);
  } catch (error) {
    console.error(`${messageOf(error)}\n\n${usage}`);
    process.exit(2);
  }
}

/** @throws Error for a text that is none. */
export function wholeNumber(option: string, text: string): number {
  const number = Number(text);
  if (text !== "" && Number.isSafeInteger(number) && number >= 0) return number;
  throw new Error(`${option} must be a whole number`);
}
