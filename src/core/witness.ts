// A witness remembers texts outside of the database.

export type Witness = {
  /**
   * Stores `text` under `name` unless a greater text, by its characters, is stored, and returns the one that is stored;
   * null: none is. `invalid`: a stored text that any text replaces. Rejects if the witness cannot be used;
   * may never resolve if it does not answer.
   */
  keepNewest(name: string, text: string | null, invalid?: string): Promise<string | null>
}
