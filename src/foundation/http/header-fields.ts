/** The header fields of a message by their names, in lower case; `null` for one that is not there. */
export interface HeaderFields {
  get(name: string): string | null;
}

/** The header fields of an answer, each once. */
export type AnswerFields = Readonly<Record<string, string>>;
