import * as z from "zod/mini";

const text = z.string();

/** A string that `parse` converts. If `parse` returns `undefined`, the sentence is the fault. */
export function parsedText<Parsed>(
  parse: (text: string) => Parsed | undefined,
  sentence: string,
): z.ZodMiniType<Parsed, string> {
  const parsing = z.transform((value: string, context) => {
    const parsed = parse(value);
    return parsed === undefined ? refuse(context, sentence) : parsed;
  });
  return z.pipe(text, parsing);
}

/** Refuses a value within a transformation. The sentence must not quote the value. */
export function refuse(context: z.core.ParsePayload, sentence: string): never {
  context.issues.push({ code: "custom", message: sentence, input: context.value });
  return z.NEVER;
}
