"""The text form of both levels of the IR, graphs and kernels: it prints, and it reads back as the
same thing.

``parse_kernel(kernel_text(k)) == k``, and ``graph_text(parse_graph(t, primitives)) == t``. The
grammar, one line a statement, blocks by two more spaces of indentation::

    kernel     = "kernel" name NEWLINE {header} loop                     (the loop is a grid)
    header     = ("in" | "out" | "inout") name ":" dtype ["alias" name] ["streamed"]  (buffers)
               | "param" name ":" dtype
               | "sizes" name {"," name}
               | "faults" number | "work" size
    loop       = ("grid" | "block" | "serial" | "unroll" | "lanes") name "<" extent BLOCK
    statement  = loop
               | "if" expr BLOCK ["else" BLOCK]
               | "var" name ":" dtype "=" expr                           Declare
               | name "=" expr                                           Assign
               | name {"," name} op "=" expr {"," expr}                  Accumulate: total add= x[i]
               | name "[" expr ["if" mask] "]" ["atomic" op] "=" expr    Store
               | ("register" | "local" | "shared") name ":" dtype "[" number "]"
               | "barrier"
               | "%" number "=" expr                                     see below
    extent     = number | "{" size "}" | expr
    expr       = linear | atom
    linear     = coefficient "*" atom {"+" coefficient "*" atom} ["+" coefficient]
    coefficient= number | "{" size "}"
    atom       = name                                                    loop variable, parameter,
    variable
               | "%" number
               | constant                                                3  true  -0.5:float32
               7:uint8 | op ["<" dtype ">"] "(" expr {"," expr} ")"              Apply | name "["
               expr ["if" mask] ["else" constant] "]"         Load | "[" linear "]" | "["
               coefficient "]"                    Linear in another, or no terms
    size       = polynomial over names with + - * // and parentheses

``%n = expr`` names an expression that is used more than once (or would nest deeper than eight
levels). It stands for the expression's text: nothing is computed there, and loads in it happen
where it is used. Definitions appear in order of first use, equal structures get one name, and so
the text does not depend on how objects are shared and is linear in the number of distinct
expressions. The dtype of an ``Apply`` is written only where it is not that of the arguments
(``cast<float32>(x)``); comparisons are bool.

A graph has one line a node, inputs first, then what it returns::

    graph      = {node} "return" ["%" number {"," "%" number}]
    node       = "%" number "=" name "(" [argument {"," argument}] ")" dtype shape
    shape      = "[" [extent {"," extent}] "]"
    argument   = "%" number | field "=" value
    value      = number | string | True | False | None | inf | nan | dtype | "(" {value ","} ")"

Values of leaves are not part of the text. A node that is already computed is a leaf, whatever
computed it.
"""

from __future__ import annotations

from lamella.ir.graph_text import graph_text, parse_graph
from lamella.ir.loop_parse import parse_kernel
from lamella.ir.loop_text import kernel_text, statement_text

__all__ = ["graph_text", "kernel_text", "parse_graph", "parse_kernel", "statement_text"]
