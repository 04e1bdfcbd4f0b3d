/** A fenced block of a page, without the indentation of the list that it is in. */
export interface FencedBlock {
  /** The line of its fence. */
  readonly line: number;
  /** The first word behind the fence, such as `sh`. */
  readonly language: string;
  /** The words behind the language: what the block needs, or how it ends. */
  readonly mark: string;
  readonly text: string;
}
/** The blocks of a page or of a part of one, in their order. */
export declare function fencedBlocks(markdown: string): FencedBlock[];
