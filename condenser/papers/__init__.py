"""What only rows of the papers need: term weights, generated texts, sentences, LSTMs, attention entropies.

Kinds in its folders are found as those of the other rooms are (`condenser.kinds`).
"""
