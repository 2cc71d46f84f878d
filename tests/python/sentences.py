# SPDX-License-Identifier: MIT
"""What calls raise, with the whole sentence."""
import unittest


def check_sentences(test, *cases):
    """cases: call, the class of its exception, what that says."""
    for call, error, sentence in cases:
        with test.assertRaises(error) as caught:
            call()
        test.assertEqual(str(caught.exception), sentence)


class SentencesTest(unittest.TestCase):
    def raises(self, kind, words, function, *arguments, **settings):
        check_sentences(self, (lambda: function(*arguments, **settings), kind, words))
